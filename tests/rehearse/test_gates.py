# What was said inside an install decides the outcome of a gate, with its control first; recorded answers, since crashes and limits
# are the rarest to come by.
import json
from collections.abc import Mapping

import pytest

from vllm_graft.rehearse.asked import MARK, Heard, parse_said, planned
from vllm_graft.rehearse.control import control_files, control_tensors
from vllm_graft.rehearse.gates import (
    GATES,
    WEIGHT_GATES,
    Gate,
    Judge,
    Needs,
    Said,
    gates_for,
    judged,
)
from vllm_graft.values.rehearsal import GateResult
from vllm_graft.workflows.explain_log import read_signatures

ROOT = "/usr/local/lib/python3.12/dist-packages"
JUDGE = Judge(
    root=ROOT,
    grafted={"vllm/config/speculative.py"},
    signatures=read_signatures(),
    died="it was killed",
)
BY_NAME = {gate.name: gate for gate in GATES}


def heard(*told: Mapping[str, object]) -> Heard:
    lines = ["INFO 11-30 10:00:00 [x.py:1] noise", *(MARK + json.dumps(each) for each in told)]
    return parse_said("\n".join(lines).encode())


def begins(gate: str, phase: str) -> dict[str, object]:
    return {"gate": gate, "phase": phase, "begins": True}


def result(gate: Gate, control: Said, real: Said) -> GateResult:
    return JUDGE.result(gate, control, real)


PASSED = Said(begun=True, ended=True, seconds=0.5)


def test_a_gate_passes_where_control_and_model_pass() -> None:
    answers = heard(
        begins("config", "control"),
        {"gate": "config", "phase": "control", "seconds": 1.25, "faults": [], "facts": {}},
        begins("config", "real"),
        {
            "gate": "config",
            "phase": "real",
            "seconds": 1,
            "faults": [],
            "facts": {"multimodal": True},
        },
        {"gate": "end"},
    )
    (told,) = judged([BY_NAME["config"]], answers, JUDGE)
    assert (told.outcome, told.milliseconds, told.facts) == ("passed", 2250, {"multimodal": "true"})
    assert answers.ended


@pytest.mark.parametrize(
    "control",
    [
        Said(begun=True, ended=True, error="OSError: no libGL.so.1"),
        Said(begun=True, ended=True, faults=(("a class", "none"),)),
        Said(begun=True),
        Said(),
    ],
)
def test_where_the_control_does_not_pass_nothing_is_said_of_the_model(control: Said) -> None:
    told = result(BY_NAME["import"], control, Said())
    assert (told.outcome, told.faults) == ("not runnable here", ())
    assert told.why


def test_a_control_that_breaks_in_a_grafted_file_is_the_grafts_fault() -> None:
    frames = (f"{ROOT}/vllm/engine/arg_utils.py", f"{ROOT}/vllm/config/speculative.py")
    broken = Said(begun=True, ended=True, error="NameError: name 'x' is not defined", frames=frames)
    told = result(BY_NAME["config"], broken, Said())
    assert told.outcome == "failed"
    assert "vllm/config/speculative.py is grafted" in told.faults[0].wanted


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("the process ended with SIGSEGV", "SIGSEGV"),
        ("not done within 300 s", "300 s"),
        ("", "it was killed"),
    ],
)
def test_a_crash_or_a_time_limit_is_a_finding(error: str, told: str) -> None:
    found = result(BY_NAME["import"], PASSED, Said(begun=True, ended=bool(error), error=error))
    assert found.outcome == "failed"
    assert told in found.faults[0].found


def test_the_cause_of_a_crash_is_looked_for_in_what_it_printed() -> None:
    noise = "ImportError: /v/_C.abi3.so: undefined symbol: _ZN2at3cpu13L2_cache_sizeEv\n"
    text = noise + "ValueError: current platform cpu does not support ray.\n"
    control = Said(begun=True, ended=True, text=noise)
    crashed = Said(begun=True, ended=True, error="the process ended with SIGABRT", text=text)
    (fault,) = result(BY_NAME["config"], control, crashed).faults
    assert "cannot be scheduled by Ray" in fault.cause, "and not what the control printed too"
    silent = Said(begun=True, ended=True, error="the process ended with SIGABRT", text=noise)
    (fault,) = result(BY_NAME["config"], control, silent).faults
    assert (fault.cause, fault.remedy) == ("", BY_NAME["config"].remedy)


def test_what_a_fault_says_itself_is_its_cause() -> None:
    found = "ImportError: cannot import name 'MambaStateCopyFunc' from 'vllm.model_executor.layers.mamba.mamba_utils' (/x.py)"
    real = Said(begun=True, ended=True, faults=(("qwen3_5 to be imported", found),))
    (fault,) = result(BY_NAME["import"], PASSED, real).faults
    assert "it imports MambaStateCopyFunc from" in fault.cause
    assert fault.code == "E643"


def test_the_words_that_pydantic_puts_around_are_taken_away() -> None:
    error = (
        "ValidationError: 1 validation error for ModelConfig\n  Value error, no such thing"
        " [type=value_error, input_value=ArgsKwargs((), {'model': '/m'}), input_type=ArgsKwargs]\n    For further information visit x"
    )
    (fault,) = result(BY_NAME["config"], PASSED, Said(begun=True, ended=True, error=error)).faults
    assert fault.found == "ModelConfig: no such thing"


def test_a_gate_that_stands_on_one_that_failed_shows_nothing_by_itself() -> None:
    bad = {"seconds": 1, "error": "ValueError: x"}
    good = {"seconds": 1, "faults": []}
    answers = heard(
        *({"gate": gate, "phase": "control", **good} for gate in ("config", "speculative")),
        *({"gate": gate, "phase": "real", **bad} for gate in ("config", "speculative")),
    )
    told = judged([BY_NAME["config"], BY_NAME["speculative"]], answers, JUDGE)
    assert [each.outcome for each in told] == ["failed", "not runnable here"]
    assert "config" in told[1].why


def test_what_it_was_doing_when_it_ended_is_told() -> None:
    answers = heard(
        begins("files", "control"),
        {"gate": "files", "phase": "control", "seconds": 0},
        begins("files", "real"),
    )
    assert not answers.ended
    assert answers.doing == "the gate files"
    assert heard(begins("import", "control")).doing == "the gate import on the control"


def test_an_import_that_never_ends_is_told_as_one() -> None:
    answers = heard({"gate": "vllm", "begins": True})
    assert answers.trouble is not None
    assert answers.doing == "the import of vLLM"
    told = result(BY_NAME["import"], answers.trouble, Said())
    assert (told.outcome, told.why) == ("not runnable here", "it was killed")


def test_lines_that_are_no_answers_are_passed_over() -> None:
    assert parse_said(b"\xff\n" + MARK.encode() + b"{cut off").said == {}


def test_only_the_gates_that_something_is_planned_for_are_run() -> None:
    always = ["files", "import", "registry", "caches", "config", "tokenizer"]
    assert [gate.name for gate in gates_for(Needs())] == always
    needs = Needs(serve=("--x",), parsers=("tool-parser",), speculative=True, several_nodes=True)
    assert gates_for(needs) == GATES
    codes = {gate.code for gate in (*GATES, *WEIGHT_GATES)}
    assert len(codes) == len(GATES) + len(WEIGHT_GATES)


def test_the_rungs_asked_for_decide_which_gates_are_run() -> None:
    assert gates_for(Needs(rungs=["P5"])) == WEIGHT_GATES
    both = gates_for(Needs(rungs=["P4", "P5"]))
    assert both[-len(WEIGHT_GATES) :] == WEIGHT_GATES
    assert {gate.rung for gate in both} == {"P4 import", "P5 weights"}


def test_what_cannot_be_tried_here_is_neither_passed_nor_failed() -> None:
    answers = heard(
        {"gate": "model", "phase": "control", "seconds": 1, "faults": []},
        {"gate": "model", "phase": "real", "seconds": 1, "unable": "it computes with numbers"},
    )
    gate = next(each for each in WEIGHT_GATES if each.name == "model")
    (told,) = judged([gate], answers, JUDGE)
    assert (told.outcome, told.why) == ("not runnable here", "it computes with numbers")
    assert told.rung == "P5 weights"


def test_the_control_is_as_wide_as_the_ranks_that_share_it() -> None:
    config = json.loads(control_files("Qwen2ForCausalLM", 4)["config.json"])
    tensors = control_tensors("Qwen2ForCausalLM", 4)
    assert config["num_attention_heads"] == 4
    assert tensors["model.layers.0.self_attn.q_proj.weight"] == ((256, 256), "BF16")
    assert tensors["model.layers.0.self_attn.q_proj.bias"] == ((256,), "BF16")
    assert tensors["lm_head.weight"][0] == (config["vocab_size"], config["hidden_size"])
    assert not any(name.endswith("bias") for name in control_tensors("LlamaForCausalLM"))


@pytest.mark.parametrize(
    ("serve", "width"),
    [
        ([], 1),
        (["--tensor-parallel-size", "2"], 2),
        (["--tensor_parallel_size=4"], 4),
        (["-tp", "8"], 8),
        (["-tp", "x"], 1),
    ],
)
def test_how_many_ranks_share_a_layer_is_read_off_the_words_of_serve(
    serve: list[str], width: int
) -> None:
    assert planned(serve, [], nodes=1, trust=False).width == width


@pytest.mark.parametrize(
    ("serve", "features", "parsers", "speculative", "way"),
    [
        ([], [], {}, None, ""),
        ([], ["mtp", "reasoning-parser=qwen3"], {"reasoning-parser": "qwen3"}, "mtp", ""),
        (
            ["--reasoning-parser", "a", "--reasoning_parser=b"],
            ["reasoning-parser=c"],
            {"reasoning-parser": "b"},
            None,
            "",
        ),
        (["--tool-call-parser", "hermes"], [], {"tool-parser": "hermes"}, None, ""),
        (["--speculative-config", '{"method": "eagle"}'], ["mtp"], {}, "eagle", ""),
        (["--speculative-config", "{method:mtp}"], [], {}, "mtp", ""),
        (["--nnodes", "2", "--headless"], [], {}, None, "native"),
        (["--nnodes", "1"], [], {}, None, ""),
        (["--distributed-executor-backend=ray"], [], {}, None, "ray"),
    ],
)
def test_what_is_planned_is_read_off_the_words_of_serve(
    serve: list[str],
    features: list[str],
    parsers: dict[str, str],
    speculative: str | None,
    way: str,
) -> None:
    found = planned(serve, features, nodes=1, trust=False)
    assert found.parsers == parsers
    assert (found.speculative or {}).get("method") == speculative
    assert found.way == way
    assert not found.trust


def test_several_nodes_without_a_way_named_want_any() -> None:
    assert planned([], [], nodes=2, trust=False).way == "any"
    assert planned(["--trust-remote-code"], [], nodes=1, trust=False).trust
