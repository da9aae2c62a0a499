# Each known line is recognised where it stands, by nothing but its own signature; and the first cause of a log is told
# from what followed, however many processes speak at once.
import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_graft.rehearse.log_causes import diagnose_log
from vllm_graft.rehearse.log_line import read_line, without_colours
from vllm_graft.values.log import LogDiagnosis
from vllm_graft.workflows.explain_log import read_signatures

RECORDED = tomllib.loads(
    (Path(__file__).parent / "signature_lines.toml").read_text(encoding="utf-8")
)
CASES = [
    (name, line["text"].lstrip("\n")) for name, row in RECORDED.items() for line in row["lines"]
]
SIGNATURES = read_signatures()


def diagnosed(text: str) -> LogDiagnosis:
    return diagnose_log("a log", [text], SIGNATURES)


def names(diagnosis: LogDiagnosis) -> list[str]:
    known = (*diagnosis.causes, *diagnosis.consequences, *diagnosis.notices)
    return [event.signature for event in known]


@pytest.mark.parametrize(
    ("name", "text"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)]
)
def test_a_recorded_line_is_known_by_its_own_signature_alone(name: str, text: str) -> None:
    diagnosis = diagnosed(text)
    assert names(diagnosis) == [name]
    assert diagnosis.unexplained == ()
    (event,) = (*diagnosis.causes, *diagnosis.consequences, *diagnosis.notices)
    blanks = re.findall(r"\{\w+\}", event.cause + event.remedy)
    assert blanks == [], "what the line says is filled in"


def test_every_signature_has_a_recorded_line_and_says_all_that_is_to_be_said() -> None:
    assert {each.name for each in SIGNATURES} == set(RECORDED)
    assert len(SIGNATURES) >= 40
    for each in SIGNATURES:
        assert each.cause.endswith("."), each.name
        assert each.remedy.endswith("."), each.name
        assert each.source, each.name


@pytest.mark.parametrize(
    "dressed",
    [
        "\x1b[0;36m(Worker_TP1 pid=123)\x1b[0;0m {}",
        "(Worker_TP1 pid=123) ERROR 11-30 18:40:01 [multiproc_executor.py:876] {}",
        "(EngineCore_0 pid=12) (Worker_TP1 pid=4, ip=10.0.0.2) ERROR 12-29 05:14:36 [v1/worker/worker_base.py:342] {}",
        "2026-11-30T18:40:01.123456789Z (Worker_TP1 pid=123) {}",
        "2026-11-30T18:40:01.1+01:00 stderr F (Worker_TP1 pid=123) {}",
        "vllm-head-1  | (Worker_TP1 pid=123) {}",
        "(Worker_TP1 pid=123) ERROR 11-30 18:40:01 [core.py:1] Loading: 10%\r(Worker_TP1 pid=123) {}\r",
    ],
)
def test_a_line_is_known_in_whatever_it_came_dressed(dressed: str) -> None:
    diagnosis = diagnosed(dressed.format("ValueError: current platform cpu does not support ray."))
    assert diagnosis.first is not None
    assert (diagnosis.first.signature, diagnosis.first.who) == ("ray-platform", "Worker_TP1")
    assert diagnosis.first.text == "ValueError: current platform cpu does not support ray."


def test_dockers_own_file_of_a_container_is_read() -> None:
    line = '(Worker_TP1 pid=1) docker: Error: could not select device driver "" with it\n'
    row = {"log": line, "stream": "stderr", "time": "2026-11-30T18:40:01.1Z"}
    diagnosis = diagnosed(json.dumps(row, separators=(",", ":")) + "\n")
    assert names(diagnosis) == ["gpu-not-in-engine"]
    assert diagnosis.causes[0].who == "Worker_TP1"


def test_a_ranks_name_is_read_from_torchs_own_prefix_too() -> None:
    assert read_line("[rank1]: Traceback (most recent call last):").who == "rank1"
    assert read_line("(raylet) gone").who == "raylet"
    assert read_line("no prefix at all").who == ""


INTERLEAVED = """\
(APIServer pid=1) INFO 11-30 18:40:00 [api_server.py:10] vLLM API server version 0.17.1
(Worker_TP0 pid=22) INFO 11-30 18:40:05 [shm_broadcast.py:681] No available shared memory broadcast block found in 60 seconds.
(Worker_TP1 pid=23) ERROR 11-30 18:40:09 [multiproc_executor.py:876] WorkerProc failed to start.
(Worker_TP1 pid=23) ERROR 11-30 18:40:09 [multiproc_executor.py:876] Traceback (most recent call last):
(Worker_TP0 pid=22) ERROR 11-30 18:40:09 [multiproc_executor.py:876] WorkerProc failed to start.
(Worker_TP0 pid=22) ERROR 11-30 18:40:09 [multiproc_executor.py:876] Traceback (most recent call last):
(Worker_TP1 pid=23) ERROR 11-30 18:40:09 [multiproc_executor.py:876]   File "/v/vllm/a.py", line 3, in load
(Worker_TP0 pid=22) ERROR 11-30 18:40:09 [multiproc_executor.py:876]   File "/v/vllm/b.py", line 4, in wait
(Worker_TP1 pid=23) ERROR 11-30 18:40:09 [multiproc_executor.py:876] RuntimeError: [enforce fail at ...gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: enp1s0f1np1
(Worker_TP0 pid=22) ERROR 11-30 18:40:09 [multiproc_executor.py:876] RuntimeError: Connection closed by peer [10.0.0.2]:2000
(EngineCore_0 pid=12) ERROR 11-30 18:40:10 [core.py:1100] EngineCore failed to start.
(EngineCore_0 pid=12) Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_the_first_cause_is_told_from_what_follows_from_it() -> None:
    diagnosis = diagnosed(INTERLEAVED)
    assert diagnosis.first is not None
    assert diagnosis.first.signature == "gloo-interface-missing"
    assert (diagnosis.first.line, diagnosis.first.who) == (9, "Worker_TP1")
    assert "enp1s0f1np1" in diagnosis.first.cause
    assert [event.signature for event in diagnosis.consequences] == [
        "shm-broadcast",
        "worker-init-failed",
        "peer-closed",
        "engine-init-failed",
    ]
    assert diagnosis.causes == (diagnosis.first,)
    assert diagnosis.unexplained == ()
    assert diagnosis.lines == 13


def test_a_kind_of_line_is_told_once_with_everyone_who_said_it() -> None:
    line = "(Worker_TP{} pid={}) IBV_WC_RETRY_EXC_ERR(12)\n"
    diagnosis = diagnosed("".join(line.format(n % 3, n) for n in range(30)))
    (event,) = diagnosis.causes
    assert (event.line, event.count) == (1, 30)
    assert event.ranks == ("Worker_TP0", "Worker_TP1", "Worker_TP2")


def traceback_of(who: str, error: str, frame: str = "x.py") -> str:
    return (
        f"({who} pid=1) Traceback (most recent call last):\n"
        f'({who} pid=1)   File "/v/{frame}", line 3, in f\n({who} pid=1)     f()\n({who} pid=1) {error}\n'
    )


def test_an_exception_that_is_not_known_is_told_too() -> None:
    diagnosis = diagnosed(
        traceback_of("Worker_TP1", "mylib.StrangeError: the sky fell") + INTERLEAVED
    )
    (event,) = diagnosis.unexplained
    assert event.text == "mylib.StrangeError: the sky fell"
    assert (event.line, event.who, event.signature) == (4, "Worker_TP1", "")
    assert diagnosis.failed


def test_an_unknown_exception_that_led_to_a_known_one_in_the_same_process_is_not_told_apart() -> (
    None
):
    text = (
        traceback_of(
            "APIServer",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        )
        + "(APIServer pid=1)   Value error, Model architectures ['A'] are not supported for now. [type=value_error]\n"
    )
    diagnosis = diagnosed(text)
    assert names(diagnosis) == ["architecture-unknown"]
    assert diagnosis.unexplained == ()


def test_an_exception_that_python_chains_to_a_known_one_led_there() -> None:
    first = traceback_of("Worker_TP1", "mylib.StrangeError: the sky fell")
    chain = "(Worker_TP1 pid=1) \n(Worker_TP1 pid=1) During handling of the above exception, another exception occurred:\n(Worker_TP1 pid=1) \n"
    then = traceback_of("Worker_TP1", "ValueError: current platform cpu does not support ray.")
    assert diagnosed(first + chain + then).unexplained == ()
    assert len(diagnosed(first + then).unexplained) == 1


def test_a_key_error_is_of_the_config_map_only_where_its_traceback_says_so() -> None:
    asked = "KeyError: 'qwen3_5_moe'"
    elsewhere = diagnosed(traceback_of("Worker_TP0", asked))
    assert names(elsewhere) == []
    assert len(elsewhere.unexplained) == 1
    frame = "transformers/models/auto/configuration_auto.py"
    both = traceback_of("Worker_TP0", "OSError: x", frame) + traceback_of("Worker_TP0", asked)
    assert names(diagnosed(both)) == []
    assert names(diagnosed(traceback_of("Worker_TP0", asked, frame))) == ["config-key-unknown"]


def test_what_was_only_a_warning_is_no_failure() -> None:
    text = INTERLEAVED.splitlines()[0] + "\n"
    text += "WARNING 11-30 18:40:01 [x.py:3] Traceback (most recent call last):\n"
    text += "WARNING 11-30 18:40:01 [x.py:3] ValueError: no triton\n"
    text += traceback_of("APIServer", "KeyboardInterrupt")
    text += traceback_of("APIServer", "asyncio.exceptions.CancelledError")
    assert not diagnosed(text).failed


def test_colours_of_every_kind_are_gone() -> None:
    assert (
        without_colours("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b[38;5;4mx")
        == "red link x"
    )


@given(st.lists(st.sampled_from([text for _, text in CASES]), max_size=8), st.data())
def test_how_a_log_is_cut_into_pieces_changes_nothing(
    texts: list[str], data: st.DataObject
) -> None:
    lines = "".join(f"{text}\n" for text in texts).splitlines(keepends=True)
    cut = data.draw(st.integers(0, len(lines)))
    pieces = ["".join(lines[:cut]), "".join(lines[cut:])]
    whole = diagnose_log("a", ["".join(lines)], SIGNATURES)
    assert diagnose_log("a", [piece for piece in pieces if piece], SIGNATURES) == whole
    assert whole.lines == len(lines)
