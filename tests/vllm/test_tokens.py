# The same tokens: what a later release has and the base 0.27.1 has not, served by the donor and by the graft.
# Every such architecture is in the matrix; those that the donor itself cannot serve on CPU are in controls.toml.

from pathlib import Path

import controls
import environments
import grafting
import parity
import pytest
import releases
from tiny_models import MODELS

BASE = "0.27.1"
DONORS = ("0.28.0", "0.29.0", "0.30.0", "0.31.0")
NAMED_SUBSET = (
    "DeepseekV3BidirectionalModel",
    "GraniteMoeSWAForCausalLM",
    "GraniteSWAForCausalLM",
    "HYV4ForCausalLM",
    "MuseGlimmerForConditionalGeneration",
)
"""What CI grafts from 0.31.0, all in one plan: one process for the donor and one for the graft."""

FEATURES = {"HYV4MTPModel": ("mtp",), "InternS2MobiusMTP": ("mtp",)}


def graft(donor: str, names: tuple[str, ...], trees: Path) -> Path:
    """Plan and apply; the verdict of a graft that is to be served may not be blocked."""
    base, giver = environments.tree(BASE), environments.tree(donor)
    wanted = tuple(
        dict.fromkeys(word for name in names for word in (served_by(name), name) if word)
    )
    features = tuple(dict.fromkeys(word for name in names for word in FEATURES.get(name, ())))
    name = f"{donor}-{names[0]}-{len(names)}"
    planned = grafting.plan(base, giver, wanted, trees / f"{name}.json", features=features)
    assert planned.verdict in {"ok", "review"}, planned.said
    return grafting.apply(planned, base, trees / name)


def served_by(name: str) -> str | None:
    """Give the architecture that serves this one, where it is a draft of a model that the base lacks too."""
    model = MODELS[name]
    served = model.served_as or (MODELS[model.draft_of].architecture if model.draft_of else None)
    known = releases.architectures(environments.tree(BASE))
    return None if served is None or served in known else served


def test_the_named_subset_says_the_same_tokens(trees: Path) -> None:
    tree = graft("0.31.0", NAMED_SUBSET, trees)
    donor = parity.serve(environments.tree("0.31.0"), NAMED_SUBSET)
    grafted = parity.serve(tree, NAMED_SUBSET, perturbed=NAMED_SUBSET[2:3])
    environments.remove(tree)
    for name in NAMED_SUBSET:
        outcome = parity.compare(donor[name], grafted[name], MODELS[name])
        print(parity.told(outcome))
        assert outcome.differences == (), name
    spoilt = grafted[f"{NAMED_SUBSET[2]} perturbed"]
    assert spoilt.get("perturbed"), spoilt.get("error")
    outcome = parity.compare(donor[NAMED_SUBSET[2]], spoilt, MODELS[NAMED_SUBSET[2]])
    assert outcome.differences, "a spoilt layer passed as the same"


def every_case() -> list[tuple[str, str]]:
    """Give donor and architecture, where all releases are at hand; else the test that fetches them says so."""
    return [(donor, name) for donor in DONORS for name in MODELS if name != "Qwen3ForCausalLM"]


@pytest.mark.full
@pytest.mark.parametrize(("donor", "name"), every_case())
def test_each_new_architecture_says_the_same_tokens(donor: str, name: str, trees: Path) -> None:
    giver = environments.tree(donor)
    if name not in releases.new_architectures(environments.tree(BASE), giver):
        pytest.skip(f"{donor} has no {name}, or the base has it too")
    control = controls.not_runnable(donor).get(name)
    answer = parity.serve(giver, [name])
    if control is not None:
        assert control.reason in answer[name].get("error", "served"), answer[name]
        pytest.skip(f"the donor itself cannot serve it on CPU: {control.reason}")
    assert "error" not in answer[name], answer[name].get("traceback")
    tree = graft(donor, (name,), trees)
    grafted = parity.serve(tree, [name], perturbed=[name])
    environments.remove(tree)
    outcome = parity.compare(answer[name], grafted[name], MODELS[name])
    print(parity.told(outcome))
    assert outcome.differences == (), grafted[name].get("traceback")
    spoilt = grafted[f"{name} perturbed"]
    assert spoilt.get("perturbed"), spoilt.get("error")
    outcome = parity.compare(answer[name], spoilt, MODELS[name])
    assert outcome.differences, "a spoilt layer passed as the same"


@pytest.mark.full
@pytest.mark.parametrize("donor", DONORS)
def test_every_new_architecture_is_in_the_matrix(donor: str) -> None:
    new = releases.new_architectures(environments.tree(BASE), environments.tree(donor))
    assert sorted(set(new) - set(MODELS)) == []


def test_the_same_tree_twice_says_the_same_and_a_spoilt_layer_is_seen() -> None:
    name = "Qwen3ForCausalLM"
    answer = parity.serve(environments.tree(BASE), [name], perturbed=[name])
    assert parity.compare(answer[name], answer[name], MODELS[name]).same
    assert not parity.compare(answer[name], answer[f"{name} perturbed"], MODELS[name]).same
