# The interpreter's word stands before what was read; what was not put to it stays as it was read.
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from vllm_graft.deps.asked import (
    Answer,
    Asked,
    AskedTransformers,
    contradictions,
    parse_answers,
    program,
    questions,
    unread,
)
from vllm_graft.deps.needs import Need, NeedKind
from vllm_graft.values.finding import Site
from vllm_graft.workflows.judge_pins import published_releases

BY = "/usr/bin/python3 in vllm-node"
SCRIPT = (files("vllm_graft") / "deps" / "inside_transformers.py").read_text(encoding="utf-8")
TREE = {
    "__init__.py": "__version__ = '5.5.0'\nprint('hello')\nfrom .dummies import Gone\n"
    "class ThereTokenizerFast: pass\n",
    "dummies.py": "class DummyObject(type): pass\n"
    "class Gone(metaclass=DummyObject):\n    _backends = ['torch']\n",
    "takes.py": "def three(a, b=object(), *, c=1, **more): ...\ndef wrapped(a): ...\n"
    "wrapped.__wrapped__ = three\n",
    "needs_torch.py": "import torch_that_nobody_has\n",
    "ends.py": "raise SystemExit(3)\n",
    "configuration_utils.py": "ALLOWED_LAYER_TYPES = ('full_attention',)\n"
    "class PretrainedConfig:\n    def __init__(self): self.made = 1\n    def validate(self): ...\n",
    "models/__init__.py": "",
    "models/auto/__init__.py": "",
    "models/auto/configuration_auto.py": "class Known:\n    @classmethod\n"
    "    def from_dict(cls, told):\n        assert told['size'] > 0, 'size'\n        return cls()\n"
    "CONFIG_MAPPING = {'known': Known}\n",
}


def need(kind: NeedKind, name: str, module: str = "", path: str = "vllm/m.py", **more: Any) -> Need:
    site = Site(install="donor", path=path, line=3)
    return Need(kind=kind, site=site, module=module, name=name, **more)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        place = tmp_path / "transformers" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path


def asked(tree: Path, needs: Sequence[Need], config: Mapping[str, object] | None = None) -> Asked:
    done = subprocess.run(
        [sys.executable, "-"],
        input=program(SCRIPT, questions(needs, config)),
        capture_output=True,
        check=True,
        env={"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
    )
    found = parse_answers(done.stdout, needs, by=BY)
    assert found is not None, done.stderr
    return found


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (need("name", "three", "transformers.takes"), ("yes", "")),
        (need("name", "auto", "transformers.models"), ("yes", "")),
        (need("name", "four", "transformers.takes"), ("no", "it has no transformers.takes.four")),
        (need("name", "x", "transformers.nowhere"), ("no", "it has no transformers.nowhere.x")),
        (
            need("name", "x", "transformers.needs_torch"),
            ("fails", "ModuleNotFoundError: No module named 'torch_that_nobody_has'"),
        ),
        (need("name", "x", "transformers.ends"), ("fails", "SystemExit: 3")),
        (need("call", "three", "transformers.takes"), ("yes", "a, b=None, *, c=None, **more")),
        (need("call", "wrapped", "transformers.takes"), ("not asked", "")),
        (need("config member", "validate"), ("yes", "")),
        (need("config member", "made"), ("yes", "")),
        (need("config member", "other"), ("no", "PretrainedConfig has no other")),
        (need("set argument", "other"), ("not asked", "")),
        (need("model type", "known"), ("yes", "Known")),
        (need("model type", "other"), ("no", "AutoConfig does not know other")),
        (need("class", "ThereTokenizer"), ("yes", "")),
        (need("class", "OtherTokenizer"), ("no", "it has no class OtherTokenizer")),
        (
            need("class", "Gone"),
            ("fails", "Gone is a placeholder, since this is not there: torch"),
        ),
        (need("layer type", "full_attention"), ("yes", "")),
        (need("layer type", "other"), ("no", "it refuses other in layer_types")),
    ],
)
def test_the_program_answers_by_importing(
    tree: Path, question: Need, answer: tuple[str, str]
) -> None:
    found = asked(tree, [question])
    assert found.version == "5.5.0"
    assert (found.answers[question].state, found.answers[question].text) == answer


def test_a_config_is_loaded_only_where_transformers_is_to_read_it(tree: Path) -> None:
    own = need("model type", "known", path="config.json")
    config = {"model_type": "known", "size": 1, "odd": float("inf")}
    good = asked(tree, [own], config)
    assert good.config == Answer(state="yes", text="Known")
    bad = asked(tree, [own], {**config, "size": 0})
    assert bad.config == Answer(state="fails", text="AssertionError: size")
    assert "does not load (AssertionError: size)" in bad.sentence
    assert asked(tree, [need("model type", "known")], config).config is None
    assert asked(tree, [need("name", "three", "transformers.takes")], config).config is None


def test_a_transformers_that_cannot_be_imported_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise ImportError('huggingface-hub>=1.5.0')\n")
    found = asked(tmp_path, [need("class", "A")])
    assert found.error == "ImportError: huggingface-hub>=1.5.0"
    (told,) = contradictions(found, None, "5.5.0")
    assert (told.code, told.severity, told.wanted) == ("G408", "review", "transformers 5.5.0")
    assert "does not import transformers" in found.sentence


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"vllm-graft-answer: \n",
        b"vllm-graft-answer: []\n",
        b'vllm-graft-answer: {"version": "5.5.0", "error": "", "answers": []}\n',
        b'vllm-graft-answer: {"version": "5.5.0", "error": "", "answers": [["maybe", ""]]}\n',
        b'{"version": "5.5.0", "error": "", "answers": [["yes", ""]]}\n',
    ],
)
def test_what_is_no_answer_is_none(said: bytes) -> None:
    assert parse_answers(said, [need("class", "A")], by=BY) is None


def told(*answers: tuple[Need, str, str], version: str = "5.5.0") -> Asked:
    known: dict[Need, Answer] = {}
    for each, state, text in answers:
        known[each] = Answer(state=state, text=text)  # pyright: ignore[reportArgumentType]
    return Asked(by=BY, version=version, answers=known)


def test_the_interpreters_word_stands_before_what_was_read() -> None:
    read = published_releases().release("5.5.0")
    assert read is not None
    has, lacks = need("model type", "qwen3_5_moe"), need("model type", "nobody_has_this")
    assert (has.met_by(read), lacks.met_by(read)) == (True, False)
    said = told((has, "no", "AutoConfig does not know it"), (lacks, "yes", ""))
    facts = AskedTransformers(asked=said, read=read, version="5.5.0")
    assert (has.met_by(facts), lacks.met_by(facts)) == (False, True)
    (finding,) = contradictions(said, read, "5.5.0")
    assert finding.wanted == "transformers with the model type qwen3_5_moe"
    assert finding.found == (
        "transformers 5.5.0 was read to have it; /usr/bin/python3 in vllm-node says: AutoConfig does not know it"
    )
    assert unread(said, read) == (lacks,)


def test_what_fails_is_neither_there_nor_absent_and_what_was_not_put_is_as_read() -> None:
    read = published_releases().release("5.5.0")
    fails, not_put = need("model type", "qwen3_5"), need("model type", "qwen3_5_moe")
    said = told((fails, "fails", "OSError: x"), (not_put, "not asked", ""))
    facts = AskedTransformers(asked=said, read=read, version="5.5.0")
    assert (fails.met_by(facts), not_put.met_by(facts)) == (None, True)
    assert [each.wanted for each in contradictions(said, read, "5.5.0")] == [
        "transformers with the model type qwen3_5"
    ]
    assert said.sentence.endswith("0 of 1 things are there when imported; 1 more only read")


def test_of_a_release_that_nobody_knows_only_the_interpreter_tells() -> None:
    call = need("call", "f", "transformers.m", positional=2)
    facts = AskedTransformers(asked=told((call, "yes", "a, b=None")), read=None, version="99.0")
    assert call.met_by(facts) is True
    assert need("call", "f", "transformers.m", positional=3).met_by(facts) is False
    assert need("set argument", "x").met_by(facts) is None
    assert need("class", "A").met_by(facts) is None


@pytest.mark.parametrize(
    ("version", "found", "differs"),
    [
        ("5.0.0.rc3", "5.0.0rc3", 0),
        ("5.5.0+git", "5.5.0", 0),
        ("5.6.0", "5.5.0", 1),
        ("5.5.0", "", 1),
    ],
)
def test_another_version_than_metadata_has_is_told(version: str, found: str, differs: int) -> None:
    assert len(list(contradictions(told(version=version), None, found))) == differs


def test_the_question_holds_any_text() -> None:
    odd = "a'\"\\\n\u2028\ud800"
    text = program("def main(text): print(text)", [{"kind": "class", "name": odd}])
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, check=True)
    assert json.loads(done.stdout) == [{"kind": "class", "name": odd}]
