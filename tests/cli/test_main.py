import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from plans import BASE_TREE, MODEL, PlanParts
from vllm_graft.cli.main import run
from vllm_graft.values.codec import encode_plan


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def call(
    *argv: str, terminal: bool = False, variables: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str, str]:
    out = Screen() if terminal else io.StringIO()
    err = Screen() if terminal else io.StringIO()
    status = run(argv, variables, out, err)
    return status, out.getvalue(), err.getvalue()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "site-packages"
    for path, content in BASE_TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    info = root / "vllm-0.14.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 0.14.1\n")
    return root


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_bytes(encode_plan(PlanParts().plan()))
    return file


def test_a_result_goes_to_stdout_and_nothing_to_stderr() -> None:
    status, out, err = call("explain", "G204")
    assert (status, err) == (0, "")
    assert "override" in out


@pytest.mark.parametrize(
    ("argv", "complaint", "help_"),
    [
        (["plna"], "invalid choice: 'plna'", "did you mean plan?"),
        (["apply", "p", "d", "--rever"], "--rever", "did you mean --revert?"),
        (["plan", "--base", "pypi:vllm==1"], "--donor", "vllm-graft plan --help"),
        (["plan", "--base", "x", "--donor", "pypi:vllm==0.17.1"], "not a source: 'x'", "Write"),
        (["plan", "--base", "pypi:vllm==1", "--donor", "pypi:vllm==2"], "no model", "--arch"),
        (["explain", "G999"], "no code 'G999'", "help"),
        (["explain", "--format", "yaml"], "invalid choice: 'yaml'", "vllm-graft explain --help"),
        (["apply", "no-such.json", "."], "no-such.json cannot be read", "plan.json"),
    ],
)
def test_a_request_that_is_not_understood_exits_2_and_offers_the_nearest(
    argv: list[str], complaint: str, help_: str
) -> None:
    status, out, err = call(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("error[E2")
    assert complaint in err
    assert help_ in err


def test_options_are_never_abbreviated() -> None:
    assert call("apply", "a", "b", "--rev")[0] == 2


def test_apply_says_what_it_wrote_in_every_form(tree: Path, plan_file: Path) -> None:
    status, out, _ = call("apply", str(plan_file), str(tree), "--dry-run")
    assert status == 0
    assert f"would be written into {tree}" in out
    status, out, _ = call("--format", "json", "apply", str(plan_file), str(tree))
    assert status == 0
    assert json.loads(out)["outcome"] == "applied"
    assert MODEL in json.loads(out)["added"]
    status, out, _ = call("apply", str(plan_file), str(tree), "--revert", "--format", "markdown")
    assert status == 0
    assert f"- `{MODEL}`" in out


def test_a_build_error_exits_4_with_code_and_remedy(tree: Path, plan_file: Path) -> None:
    (tree / MODEL).write_text("mine\n")
    status, out, err = call("apply", str(plan_file), str(tree))
    assert (status, out) == (4, "")
    assert err.startswith("error[E406]: ")
    assert "  help: " in err


def test_a_source_error_exits_3(tmp_path: Path, plan_file: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert call("apply", str(plan_file), str(tmp_path / "empty"))[0] == 3


@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_is_for_terminals_and_no_color_is_honoured(
    variables: dict[str, str], *, coloured: bool
) -> None:
    assert ("\033[" in call("explain", "G999", terminal=True, variables=variables)[2]) is coloured
    assert "\033[" not in call("explain", "G999", variables=variables)[2]


def test_a_defect_exits_70_and_says_what_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(_: str, __: str) -> str:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("vllm_graft.workflows.explain.explain", fall)
    status, out, err = call("explain", "G204")
    assert (status, out) == (70, "")
    for told in ("E000", "please report", "ZeroDivisionError: oops", "['explain', 'G204']"):
        assert told in err


def test_ctrl_c_exits_130_with_a_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(_: str, __: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("vllm_graft.workflows.explain.explain", fall)
    status, _, err = call("explain", "G204")
    assert status == 130
    assert err.strip() == "interrupted; nothing was left half written"


def test_ctrl_c_after_which_something_stands_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(_: str, __: str) -> str:
        interrupt = KeyboardInterrupt()
        interrupt.add_note("undoing failed as well")
        raise interrupt

    monkeypatch.setattr("vllm_graft.workflows.explain.explain", fall)
    assert call("explain", "G204")[2] == "\ninterrupted\n  note: undoing failed as well\n"


def program(*argv: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vllm_graft", *argv],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        **settings,  # pyright: ignore[reportCallIssue, reportArgumentType] (cwd only)
    )


def test_help_is_fast_because_it_imports_nothing_heavy() -> None:
    code = (
        "import sys; from vllm_graft.cli.main import run; run(('--help',), {}, sys.stdout, sys.stderr);"
        "print([name for name in ('libcst', 'cattrs', 'packaging', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("verb", ["inspect", "plan", "apply", "build", "rehearse", "explain"])
def test_every_verb_has_help(verb: str) -> None:
    done = program(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: vllm-graft {verb}")


def test_version_and_completion_are_printed() -> None:
    assert program("--version").stdout.startswith("vllm-graft 0.")
    for shell in ("bash", "zsh", "tcsh"):
        assert "vllm-graft" in program("--print-completion", shell).stdout


def test_a_completion_script_is_one_that_bash_takes(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(program("--print-completion", "bash").stdout)
    asked = (
        f"source {script}; COMP_WORDS=(vllm-graft pl); COMP_CWORD=1; COMP_LINE='vllm-graft pl';"
        " COMP_POINT=13; \"$(complete -p vllm-graft | sed -E 's/.*-F ([^ ]+).*/\\1/')\" vllm-graft pl;"
        ' echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["plan"]


def test_a_reader_that_leaves_early_is_no_defect() -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{sys.executable} -m vllm_graft explain | head -n 1 >&2; echo ${{PIPESTATUS[0]}}",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() in ("0", "141")
    assert "Traceback" not in done.stderr
