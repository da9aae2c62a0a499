import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

from vllm_graft.errors import RequestError
from vllm_graft.values.node import Node
from vllm_graft.values.settings import Settings
from vllm_graft.values.settings_file import decode_settings
from vllm_graft.values.source import DockerSource, PathSource

PAGE = (Path(__file__).parents[2] / "docs/settings.md").read_text()
WHOLE = PAGE.partition("```toml\n")[2].partition("```")[0]


def read(text: str, where: str = "graft.toml") -> Settings:
    return decode_settings(text.encode(), where=where)


def refused(text: str | bytes, code: str = "E222") -> str:
    content = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(RequestError) as caught:
        decode_settings(content, where="graft.toml")
    assert caught.value.code == code
    assert caught.value.what.startswith("graft.toml ")
    assert "docs/settings.md" in caught.value.remedy
    return caught.value.what


def test_the_file_of_the_page_is_read() -> None:
    settings = read(WHOLE)
    assert settings.base.source == DockerSource(reference="vllm-node")
    assert settings.model.id == "Qwen/Qwen3.5-122B-A10B-FP8"
    assert settings.model.features == ("mtp", "reasoning-parser=qwen3")
    assert settings.image.tag == "vllm-node-qwen35"
    assert (settings.nodes.head, settings.nodes.workers) == (
        Node(name="spark1"),
        (Node(name="spark2"),),
    )
    assert settings.serve.args == ("--max-model-len", "65536")
    assert (settings.serve.launcher, settings.serve.tensor_parallel, settings.serve.port) == (
        "auto",
        2,
        8000,
    )


def test_the_page_has_a_row_for_every_key_and_no_other() -> None:
    kinds = get_type_hints(Settings)
    known = {f"{name}.{key.name}" for name, kind in kinds.items() for key in fields(kind)}
    rows = set(re.findall(r"^\| `(\w+\.\w+)` \|", PAGE, re.MULTILINE))
    assert rows == known
    shown = {f"{name}.{key}" for name, each in tomllib.loads(WHOLE).items() for key in each}
    assert shown == known - {"model.revision"}


def test_everything_may_be_absent() -> None:
    assert read("") == Settings()
    assert read("[nodes]\n[serve]\n") == Settings()
    assert Settings().nodes.head is None
    assert Settings().serve.port == 8000
    assert Settings().serve.tensor_parallel is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[modle]\nid = 'x'\n", "line 1: unknown key 'modle' (did you mean 'model'?)"),
        ("top = 1\n", "line 1: unknown key 'top'"),
        ("[serve]\n\nprot = 1\n", "line 3: serve: unknown key 'prot' (did you mean 'port'?)"),
        ("serve = {prot = 1}", "line 1: serve: unknown key 'prot'"),
        ("[serve]\nport = '80'\n", "line 2: serve.port: wanted a whole number, found a string"),
        ("[serve]\nport = true\n", "line 2: serve.port: wanted a whole number, found true"),
        ("[serve]\nport = 0\n", "wanted a whole number from 1 to 65535, found 0"),
        ("[serve]\nport = 65536\n", "wanted a whole number from 1 to 65535, found 65536"),
        ("[serve]\ntensor_parallel = 0\n", "wanted a whole number from 1, found 0"),
        ("[serve]\nlauncher = 'mpi'\n", "wanted one of 'auto', 'native', 'ray', found 'mpi'"),
        ("[serve]\nargs = '--x'\n", "line 2: serve.args: wanted a list, found a string"),
        ("[serve]\nargs = ['--x', 1]\n", "line 2: serve.args[1]: wanted a string"),
        ("[serve]\nargs = ['--port', '1']\n", "serve.args[0]: '--port' is said by serve.port"),
        ("[serve]\nargs = ['--tensor_parallel_size=2']\n", "is said by serve.tensor_parallel"),
        ("[serve]\nargs = ['-tp', '2']\n", "is said by serve.tensor_parallel"),
        ("base = 'docker:x'\n", "line 1: base: wanted a section, found a string (did you mean"),
        ("[base]\nsource = 'dokcer:x'\n", "line 2: base.source: unknown kind of source 'dokcer'"),
        ("[base]\nsource = 7\n", "line 2: base.source: wanted a string, found a whole number"),
        ("[nodes]\nhead = '-oProxyCommand=x'\n", "line 2: nodes.head: not a name of a node"),
        ("[nodes]\nworkers = [\n  'a',\n  'b c',\n]\n", "line 2: nodes.workers[1]: not a name"),
        ("[nodes]\nhead = 'a'\nworkers = ['a']\n", "line 1: nodes: a is named twice"),
        ("[nodes]\nworkers = ['localhost']\n", "line 1: nodes: localhost is named twice"),
        ("[image]\ntag = 'Upper:1'\n", "line 2: image.tag: wanted NAME or NAME:TAG, the name in"),
        ("[image]\ntag = '-x'\n", "line 2: image.tag: wanted NAME or NAME:TAG"),
        ("[serve]\nname = 'My Model'\n", "line 2: serve.name: wanted up to 63 of a-z"),
        ("[serve]\nhost = '--root-path'\n", "line 2: serve.host: wanted an address or name"),
        ("[serve]\nhost = 'a b'\n", "line 2: serve.host: wanted an address or name of the head"),
        ("x = '''\n[serve]\nport=1\n'''\n[serve]\nprot = 1\n", "line 6: serve: unknown key 'prot'"),
    ],
)
def test_what_says_nothing_is_told_with_its_line(text: str, complaint: str) -> None:
    assert complaint in refused(text)


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    told = refused(
        "[serve]\nargs = ['--port=1']\nport = 0\n[nodse]\n[model]\nid = 1\n[base]\nsource = 'x'\n"
    )
    lines = [line.partition(":")[0].strip() for line in told.splitlines()[1:]]
    assert lines == ["line 2", "line 3", "line 4", "line 6", "line 8"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[serve", "at end of document"),
        (b"\xff", "utf-8"),
        (b"[serve]\nport = 1\nport = 2\n", "line 3"),
        (b"a = " + b"[" * 20_000, ""),
    ],
)
def test_what_is_no_toml_is_told(content: bytes, complaint: str) -> None:
    assert complaint in refused(content, "E221")


def test_a_file_of_very_many_lines_is_refused_without_lines_and_at_once() -> None:
    told = refused("# comment\n" * 20_000 + "[serve]\nprot = 1\n")
    assert "\n  serve: unknown key 'prot'" in told


def test_places_are_in_the_folder_of_the_file() -> None:
    text = "[base]\nsource='path:venv'\n[donor]\nsource='path:/opt/venv'\n[model]\nid='./tiny'\n"
    settings = read(text, "some/where/graft.toml")
    assert settings.base.source == PathSource(path="some/where/venv")
    assert settings.donor.source == PathSource(path="/opt/venv")
    assert settings.model.id == "some/where/tiny"
    assert read("[model]\nid='Qwen/Qwen3'\n", "some/where/graft.toml").model.id == "Qwen/Qwen3"


def test_a_mark_of_bytes_order_is_no_part_of_the_text() -> None:
    assert decode_settings(b"\xef\xbb\xbf[serve]\r\nport = 1\r\n", where="x").serve.port == 1
