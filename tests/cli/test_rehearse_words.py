# What is asked wrongly of `rehearse` is refused before anything is run.
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pretend import package, write_tree
from vllm_graft.rehearse.control import control_architecture, control_files


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    return write_tree(tmp_path / "model", {"config.json": json.dumps(config).encode()})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "site", package())


def refused(*words: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "vllm_graft", "--quiet", "rehearse", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("install", "words", "code"),
    [
        ("registry:localhost:5000/vllm:1", (), "E234"),
        ("wheel:some.whl", (), "E234"),
        ("docker:vllm", ("--python", "python3"), "E235"),
        ("path:FOLDER", ("--volume", "/a:/b"), "E235"),
        ("path:FOLDER", (), "E237"),
        ("path:FOLDER", ("--python", "/no/such/python"), "E237"),
        ("path:FOLDER", ("--env", "1=2"), "E238"),
        ("path:FOLDER", ("--env", "NAME"), "E238"),
        ("path:FOLDER", ("--volume", "/a"), "E238"),
        ("path:FOLDER", ("--nodes", "0"), "E200"),
        ("path:FOLDER", ("--seconds", "none"), "E200"),
        ("path:FOLDER", ("--until", "P9"), "E200"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    install: str, words: tuple[str, ...], code: str, model: Path, folder: Path
) -> None:
    status, said = refused(install.replace("FOLDER", str(folder)), "--model", model, *words)
    assert (status, f"error[{code}]" in said) == (2, True), said


def test_a_model_without_an_architecture_is_refused(tmp_path: Path, folder: Path) -> None:
    write_tree(tmp_path / "adapter", {"config.json": b'{"peft_type": "LORA"}'})
    status, said = refused(f"path:{folder}", "--model", tmp_path / "adapter")
    assert (status, "error[E233]" in said) == (2, True), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "P5"), "add --until P5"),
        (("--weights-on", "spark1"), "--weights-on is about P5"),
        (("--until", "P6"), "invalid choice"),
    ],
)
def test_rungs_that_do_not_fit_together_are_refused(
    words: tuple[str, ...], said: str, folder: Path, model: Path
) -> None:
    status, told = refused(f"path:{folder}", "--model", model, *words)
    assert (status, said in told) == (2, True), told


def test_a_model_that_is_not_there_is_refused(tmp_path: Path, folder: Path) -> None:
    status, said = refused(f"path:{folder}", "--model", tmp_path / "none")
    assert (status, "error[E202]" in said) == (2, True), said


def test_a_folder_whose_vllm_cannot_be_imported_shows_nothing_and_is_no_success(
    folder: Path, model: Path
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "vllm_graft", "--format", "json", "rehearse", f"path:{folder}"),
            *("--model", str(model), "--python", sys.executable),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout)
    assert [(gate["gate"], gate["outcome"]) for gate in told["gates"]] == [
        ("files", "passed"),
        ("vllm", "not runnable here"),
    ]
    assert done.returncode == 1
    assert "vllm.platforms" in told["gates"][1]["why"]


def test_a_limit_is_told_with_what_it_was_doing(folder: Path, model: Path) -> None:
    (folder / "vllm/platforms.py").write_text("import time\n\ntime.sleep(60)\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "vllm_graft", "rehearse", f"path:{folder}", "--seconds", "2"),
            *("--model", str(model), "--python", sys.executable),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "not runnable here  vllm" in done.stdout
    assert "it was not done in time during the import of vLLM" in done.stdout


def test_the_control_is_not_the_architecture_in_question() -> None:
    assert control_architecture(["Qwen3ForCausalLM"]) == "LlamaForCausalLM"
    assert control_architecture(["LlamaForCausalLM"]) == "Qwen2ForCausalLM"


def test_the_tokenizer_of_the_control_has_every_byte() -> None:
    made = json.loads(control_files("LlamaForCausalLM")["tokenizer.json"])
    assert len(made["model"]["vocab"]) == 256
    assert [token["id"] for token in made["added_tokens"]] == [256, 257]
