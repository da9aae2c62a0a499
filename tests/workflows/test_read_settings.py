from pathlib import Path

import pytest

from vllm_graft.errors import RequestError
from vllm_graft.values.node import Node
from vllm_graft.values.settings import NodeSettings, Settings
from vllm_graft.workflows.read_settings import nodes_of, read_settings

SPARK1, SPARK2 = Node(name="spark1"), Node(name="spark2")


def test_settings_are_those_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_settings() == Settings()
    (tmp_path / "graft.toml").write_text("[nodes]\nhead = 'spark1'\n")
    assert read_settings().nodes.head == SPARK1
    (tmp_path / "other.toml").write_text("[nodes]\nhead = 'spark2'\n")
    assert read_settings("other.toml").nodes.head == SPARK2


@pytest.mark.parametrize("name", ["absent.toml", "folder", "absent/graft.toml"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(RequestError) as caught:
        read_settings(f"{tmp_path}/{name}")
    assert caught.value.code == "E213"
    assert name in caught.value.what


def test_a_folder_of_that_name_is_told_also_where_nobody_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graft.toml").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError) as caught:
        read_settings()
    assert caught.value.code == "E213"


@pytest.mark.parametrize(
    ("settings", "words", "machines"),
    [
        (NodeSettings(), (), (None,)),
        (NodeSettings(head=SPARK1), (), (SPARK1,)),
        (NodeSettings(workers=(SPARK2,)), (), (None, SPARK2)),
        (NodeSettings(head=SPARK1, workers=(SPARK2, None)), (), (SPARK1, SPARK2, None)),
        (NodeSettings(head=SPARK1, workers=(SPARK2,)), ("me@a",), (Node(name="me@a"),)),
        (NodeSettings(), ("spark2", "spark1"), (SPARK2, SPARK1)),
        (NodeSettings(), ("localhost", "spark2"), (None, SPARK2)),
        (
            NodeSettings(),
            ("me@localhost", "local"),
            (Node(name="me@localhost"), Node(name="local")),
        ),
    ],
)
def test_the_head_is_first(
    settings: NodeSettings, words: tuple[str, ...], machines: tuple[Node | None, ...]
) -> None:
    assert nodes_of(Settings(nodes=settings), words) == machines


@pytest.mark.parametrize(
    ("words", "code"),
    [(("a", "b", "a"), "E223"), (("localhost", "localhost"), "E223"), (("a", "-oX"), "E219")],
)
def test_nodes_that_cannot_be_meant_are_refused(words: tuple[str, ...], code: str) -> None:
    with pytest.raises(RequestError) as caught:
        nodes_of(Settings(), words)
    assert caught.value.code == code
    assert words[-1] in caught.value.what
