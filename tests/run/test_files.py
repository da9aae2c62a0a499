from pathlib import Path

import pytest

from vllm_graft.run.files import write_atomically


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "x.py"
    target.write_bytes(b"old")
    target.chmod(0o640)
    write_atomically(target, b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["x.py"]


def test_a_link_is_replaced_and_what_it_leads_to_is_left(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"there")
    (tmp_path / "link").symlink_to("there")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "there").read_bytes() == b"there"
    assert not (tmp_path / "link").is_symlink()


def test_a_folder_that_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no/x.py", b"new")
    assert not list(tmp_path.iterdir())
