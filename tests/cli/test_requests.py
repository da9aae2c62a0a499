"""What the words of a request do, on two small installs that lie in folders."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from held import CONFIG_REGISTRY, MODEL_CONFIGS, REGISTRY, small_vllm, with_okapi
from linking import packages
from plans import PlanParts
from pretend import write_tree
from vllm_graft.cli.main import run
from vllm_graft.values.codec import encode_plan

PROGRAM = (sys.executable, "-m", "vllm_graft")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """``--base`` and ``--donor``, each as a source."""
    base = {**packages(), **small_vllm()}
    for name, files in (("base", base), ("donor", with_okapi(base))):
        write_tree(tmp_path / name, {path: text.encode() for path, text in files.items()})
    return f"path:{tmp_path / 'base'}", f"path:{tmp_path / 'donor'}"


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    status = run(argv, {**os.environ, "NO_COLOR": "1"}, sys.stdout, sys.stderr)
    told = capsys.readouterr()
    return status, told.out, told.err


def test_what_the_base_has_already_is_left_as_it_is(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    _, alone, _ = call(capsys, *words, "--format", "json")
    status, out, err = call(capsys, *words, "--arch", "LlamaForCausalLM", "--format", "json")
    assert status == 0
    assert "LlamaForCausalLM is left as it is" in err
    assert out == alone


def test_a_word_that_is_said_twice_counts_once(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    once = ("--arch", "OkapiForCausalLM", "--feature", "reasoning-parser=llama")
    words = ("plan", "--base", pair[0], "--donor", pair[1], *once, "--format", "json")
    _, alone, _ = call(capsys, *words)
    status, out, _ = call(capsys, *words, *once)
    assert status == 0
    assert out == alone


def test_a_parser_of_the_same_name_is_compared_even_if_the_base_knows_the_model(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--arch", "LlamaForCausalLM", "--feature", "reasoning-parser=llama")
    asked = ("plan", "--base", pair[0], "--donor", pair[1], *words)
    assert "  llama: the base has it, the same\n" in call(capsys, *asked)[1]
    parser = tmp_path / "donor/vllm/reasoning/llama_reasoning_parser.py"
    parser.write_text(parser.read_text().replace("old", "new"))
    status, out, _ = call(capsys, *asked, "-o", str(tmp_path / "plan.json"))
    assert status == 0
    assert "The base knows this model. What vLLM" in out
    assert "G304" in out
    call(capsys, "apply", str(tmp_path / "plan.json"), str(tmp_path / "base"))
    _, out, _ = call(capsys, *asked)
    assert out.startswith(
        "Route: base-as-is, recommended, for one node and for several\n\nNothing to do"
    )
    assert "the base keeps its llama" in out


def test_a_config_without_architectures_asks_for_one(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"architectures": []}')
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--model", str(tmp_path))
    status, _, err = call(capsys, *words)
    assert status == 2
    assert "beside --model" in err
    status, out, _ = call(capsys, "inspect", pair[0], "--model", str(tmp_path))
    assert status == 0
    assert "Missing: an architecture in config.json (name it with --arch)." in out


def test_an_architecture_that_nobody_knows_is_looked_up_in_a_list_that_exists(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "Xyz")
    assert "`vllm-graft inspect DONOR --format json` lists" in call(capsys, *words)[2]
    _, out, _ = call(capsys, "inspect", pair[1], "--format", "json")
    assert "OkapiForCausalLM" in json.loads(out)["architecture_names"]


OUTPUTS = [
    (["-o", "no/plan.json"], "there is no folder"),
    (["-o", "."], "it is a folder"),
    (["--diff", "/dev/null"], "it is no regular file"),
    (["--report", "base/report.html", "--overlay", "base"], "files that vllm-graft did not write"),
    (["--overlay", "mine.txt"], "mine.txt cannot be written"),
    (["--overlay", "mine.txt/below"], "you may not write in"),
    (["-o", "same", "--diff", "./same"], "cannot both be written"),
    (["-o", "new/plan.json", "--overlay", "new"], "there is no folder"),
    (["-o", "made/plan.json", "--overlay", "made"], "cannot both be written"),
]


@pytest.mark.parametrize("asked", OUTPUTS)
def test_what_could_not_be_written_is_refused_before_anything_is_linked(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[list[str], str],
) -> None:
    outputs, complaint = asked
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("mine")
    Path("made").mkdir()
    before = sorted(tmp_path.iterdir())
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    status, out, err = call(capsys, *words, *outputs)
    assert (status, out) == (2, "")
    assert err.startswith("error[E213]: ")
    assert complaint in err
    assert "linking" not in err
    assert sorted(tmp_path.iterdir()) == before
    assert Path("mine.txt").read_text() == "mine"
    assert Path("/dev/null").is_char_device()


def test_outputs_are_written_where_they_are_named_links_followed(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    Path("plan.json").symlink_to("../elsewhere.json")
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    for _ in range(2):
        assert call(capsys, *words, "-o", "plan.json", "--overlay", "files/")[0] == 0
    assert Path("plan.json").is_symlink()
    assert json.loads((tmp_path / "elsewhere.json").read_bytes())["architectures"]
    assert Path("files/vllm/model_executor/models/okapi.py").exists()
    Path("empty").mkdir()
    monkeypatch.chdir("empty")
    assert call(capsys, *words, "--overlay", ".")[0] == 0
    assert (tmp_path / "out/empty/vllm/model_executor/models/okapi.py").exists()


def test_where_nothing_is_to_be_done_the_files_that_were_asked_for_are_said_not_to_be_written(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", "--base", pair[1], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    status, out, err = call(capsys, *words, "-o", str(tmp_path / "plan.json"))
    assert status == 0
    assert out.startswith(
        "Route: base-as-is, recommended, for one node and for several\n\nNothing to do"
    )
    assert f"{tmp_path}/plan.json is not written" in err
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    "unknown",
    [
        ("base", REGISTRY, "_VLLM_MODELS = read('models.toml')\n", "no _VLLM_MODELS"),
        ("donor", REGISTRY, "_VLLM_MODELS = read('models.toml')\n", "no _VLLM_MODELS"),
        ("base", MODEL_CONFIGS, "MODELS_CONFIG_MAP = read('x')\n", "no MODELS_CONFIG_MAP"),
        ("base", CONFIG_REGISTRY, "_CONFIG_REGISTRY = read('x')\n", "no _CONFIG_REGISTRY"),
    ],
)
def test_a_layout_that_is_not_known_is_refused_before_anything_is_linked(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    unknown: tuple[str, str, str, str],
) -> None:
    role, path, text, told = unknown
    (tmp_path / role / path).write_text(text)
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    status, out, err = call(capsys, *words)
    assert (status, out) == (3, "")
    assert err.startswith(f"error[E307]: the layout of the {role} path:{tmp_path}/{role} is not")
    assert told in err
    assert path in err


def test_a_base_that_was_left_half_written_is_undone_before_it_is_planned_for(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    _, first, _ = call(capsys, *words, "--format", "json", "-o", str(tmp_path / "plan.json"))
    call(capsys, "apply", str(tmp_path / "plan.json"), str(tmp_path / "base"))
    (state,) = (tmp_path / "base/vllm/.vllm-graft").glob("*/state.json")
    state.write_text(state.read_text().replace('"applied"', '"writing"'))  # as `kill -9` leaves it
    status, out, err = call(capsys, *words)
    assert (status, out) == (3, "")
    assert err.startswith("error[E308]: ")
    command = err.partition("undo it first: vllm-graft ")[2].split()
    assert call(capsys, *command)[0] == 0
    assert call(capsys, *words, "--format", "json")[1] == first


@pytest.mark.parametrize("role", ["base", "donor"])
@pytest.mark.parametrize("text", ["def (:\n", "\0\n"])
def test_a_file_that_is_no_python_is_named_with_the_install_that_has_it(
    pair: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    role: str,
    text: str,
) -> None:
    (tmp_path / role / MODEL_CONFIGS).write_text(text)
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    status, out, err = call(capsys, *words)
    assert (status, out) == (3, "")
    assert err.startswith(f"error[E305]: {MODEL_CONFIGS} is not valid Python")
    assert f"note: it lies in {tmp_path}/{role} (path:{tmp_path}/{role})" in err


def test_a_wheel_that_is_named_as_a_folder_gets_its_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vllm-1.whl").write_bytes(b"")
    status, _, err = call(capsys, "inspect", f"path:{tmp_path}/vllm-1.whl")
    assert status == 3
    assert f"wheel:{tmp_path}/vllm-1.whl" in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_text_fits_the_terminal_and_is_the_same_everywhere_where_there_is_none(
    pair: tuple[str, str],
) -> None:
    words = ("plan", "--base", pair[0], "--donor", pair[1], "--arch", "OkapiForCausalLM")
    shown: dict[str, str] = {}
    for columns in ("60", "100"):
        for out in (Terminal(), io.StringIO()):
            run(words, {"COLUMNS": columns, "NO_COLOR": "1"}, out, io.StringIO())
            shown[f"{type(out).__name__} {columns}"] = out.getvalue()
    assert shown["StringIO 60"] == shown["StringIO 100"] == shown["Terminal 100"]
    assert shown["Terminal 60"].splitlines()[5] != shown["Terminal 100"].splitlines()[5]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_stdout_that_takes_nothing_is_no_defect() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "explain"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error[E213]: the result cannot be written to stdout: No space")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_no_defect(closed: str) -> None:
    asked = f"{' '.join(PROGRAM)} explain G204 {closed}"
    done = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is (closed == "2>&-")


def test_a_terminal_without_unicode_gets_every_result(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    place = tmp_path / "bäse"
    (tmp_path / "base").rename(place)
    done = subprocess.run(
        [*PROGRAM, "inspect", f"path:{place}"],
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert pair[0].replace("base", "b\\xe4se").encode() in done.stdout


def test_ctrl_c_while_the_program_is_still_read_is_one_clean_line() -> None:
    code = (
        "import sys, vllm_graft.__main__ as program\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'vllm_graft.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.exit(program.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "interrupted; nothing was left half written"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--to", "plugin:x", "-t", "name"], "--tag say nothing of a plugin"),
        (["--to", "plugin:x", "--lock", "f", "--force"], "--lock, --force"),
        (["-t", "name", "--platform", "linux/arm64"], "--platform say nothing of an image"),
        (["--to", "oci:x"], "the new image has no name"),
    ],
)
def test_words_that_would_say_nothing_are_refused(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode_plan(PlanParts().plan()))
    status, out, err = call(capsys, "build", str(plan), *more)
    assert (status, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("img:1", "spark1", "--address", "spakr1=10.0.0.1"), "names spakr1, which is none of"),
        (
            ("--weights", "org/tiny", "--hub", "spakr1=/hub", "spark1"),
            "names spakr1, which is none",
        ),
        (("img:1", "spark1", "--address", "10.0.0.1"), "no address of a node: '10.0.0.1'"),
    ],
)
def test_what_ship_would_pass_over_is_refused(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = call(capsys, "ship", *words)
    assert (status, out) == (2, "")
    assert said in err
