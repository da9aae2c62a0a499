# `explain --log` as a user runs it: files, pipes, a log that is larger than what the program may hold.
import json
import resource
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from vllm_graft.workflows.explain_log import read_signatures

ROOT = Path(__file__).parents[2]
FAILED = (
    "(Worker_TP1 pid=2) ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'\n"
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)
WELL = "INFO 11-30 18:40:00 [api_server.py:10] vLLM API server\nINFO:     Application startup complete.\n"


def explained(
    *words: str, given: bytes = b"", memory: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    def limit() -> None:
        assert memory is not None
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.run(
        [sys.executable, "-m", "vllm_graft", "explain", *words],
        input=given,
        capture_output=True,
        check=False,
        preexec_fn=limit if memory else None,
    )


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_first_cause_and_what_to_do_are_told(form: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(FAILED)
    done = explained("--log", str(tmp_path / "log"), "--format", form)
    said = done.stdout.decode()
    assert done.returncode == 1, done.stderr
    assert (
        "First cause: Triton's own ptxas is older than this GPU and does not know sm_121a." in said
    )
    assert "TRITON_PTXAS_PATH" in said
    assert (
        said.index("ptxas-too-old") < said.index("Consequences") < said.index("engine-init-failed")
    )
    assert "Worker_TP1" in said


def test_what_is_printed_as_json_keeps_to_its_schema() -> None:
    schema = json.loads((ROOT / "docs/explain-log.schema.json").read_text())
    for given, status in ((FAILED, 1), (WELL, 0)):
        done = explained("--log", "-", "--format", "json", given=given.encode())
        assert done.returncode == status
        jsonschema.validate(json.loads(done.stdout), schema)


def test_of_a_log_without_a_failure_no_more_is_said_than_is_known() -> None:
    done = explained("--log", "-", given=WELL.encode())
    assert done.returncode == 0
    assert done.stdout == b"Nothing in these 2 lines is known to be a failure.\n"


def test_where_only_consequences_are_seen_nobody_is_told_that_all_is_well() -> None:
    done = explained("--log", "-", given=FAILED.splitlines()[1].encode())
    assert done.returncode == 1
    assert b"the cause stands in another process's log" in b" ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (b"", b"E231", b"2>&1"),
        (b"PK\x03\x04\0\0", b"E232", b"no text"),
        (FAILED.encode("utf-16"), b"E232", b"UTF-16"),
    ],
)
def test_what_is_no_log_is_refused(given: bytes, code: bytes, said: bytes) -> None:
    done = explained("--log", "-", given=given)
    assert done.returncode == 2
    assert b"error[" + code in done.stderr
    assert said in done.stderr
    assert done.stdout == b""


def test_a_log_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    for name in (tmp_path / "none", tmp_path):
        done = explained("--log", str(name))
        assert (done.returncode, b"E230" in done.stderr) == (2, True), done.stderr


def test_words_that_say_nothing_of_a_log_are_refused() -> None:
    done = explained("G204", "--log", "-", given=WELL.encode())
    assert done.returncode == 2
    assert b"G204" in done.stderr


def test_bytes_that_are_no_utf_8_and_marks_that_steer_a_terminal_do_no_harm() -> None:
    given = b"\xff\xfe \x1b[31mbad\x07\n\x1b[31m(Worker_TP1 pid=2)\x1b[0m ray: not found \x1b]0;title\x07\x08\n"
    done = explained("--log", "-", given=given)
    assert done.returncode == 1
    assert b"ray-missing" in done.stdout
    assert b"\x1b" not in done.stdout
    assert b"\x07" not in done.stdout


def test_a_log_of_any_size_is_read_in_little_memory(tmp_path: Path) -> None:
    large = tmp_path / "log"
    calm = (
        WELL + "DEBUG some line that says nothing of interest, as most do, again and again\n"
    ) * 4000
    with large.open("w") as stream:
        for _ in range(120):
            stream.write(calm)
        stream.write("x" * 5_000_000 + " ray: not found\n" + FAILED)
    assert large.stat().st_size > 70_000_000
    done = explained("--log", str(large), "--format", "json", memory=400_000_000)
    assert done.returncode == 1, done.stderr[-500:]
    told = json.loads(done.stdout)
    assert told["lines"] == 120 * 4000 * 3 + 3
    assert [event["signature"] for event in told["causes"]] == ["ray-missing", "ptxas-too-old"]
    assert told["first"]["line"] == 120 * 4000 * 3 + 1
    assert len(told["first"]["text"]) <= 400


def test_a_pipe_that_is_still_open_is_read_to_its_end() -> None:
    writer = "import sys, time\nfor line in sys.argv[1].splitlines():\n    print(line, flush=True)\n    time.sleep(0.2)"
    with subprocess.Popen([sys.executable, "-c", writer, FAILED], stdout=subprocess.PIPE) as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "vllm_graft", "explain", "--log", "-", "--format", "json"],
            stdin=pipe.stdout,
            capture_output=True,
            check=False,
        )
    assert json.loads(done.stdout)["lines"] == 2


def test_the_page_about_logs_lists_every_signature() -> None:
    page = (ROOT / "docs/logs.md").read_text()
    assert [each.name for each in read_signatures() if f"`{each.name}`" not in page] == []
