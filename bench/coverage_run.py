# What coverage.py --execute does: a plan is applied to a copy of its base, and what vLLM makes there of a small model is
# held against what it makes in the donor's own tree. Needs the tier with real vLLM (tests/vllm).
#
# The donor is the control: it is asked for all architectures at once, and where it fails, nothing can be said of the
# graft here. What it answered is kept. Each graft is a tree and a process of its own, and is given the very configuration
# that the donor ended with: whatever the graft asks for beyond it, or does otherwise, is an outcome.
"""Run plans against the donor."""

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/vllm"))

import environments
import graft_trees
import insides

if TYPE_CHECKING:
    from coverage import Case

BATCH = 8
"""Architectures that one process of the donor answers for: so often something is kept."""
PUBLISHED = Path(__file__).with_name("coverage_configs.toml")
EVERYWHERE: Mapping[str, Any] = {
    "shrink": insides.TINY,
    "supply": True,
    "stand_ins": True,
    "complete": True,
}
GIVEN_TO_BOTH = ("engine", "files", "tensor_files", "class_name")
STEPS_OF_CLASS = "class constructed"
OTHER_TORCH = ("0.20.2",)
"""Releases whose native extensions do not load beside this torch (docs/inside.md): there an operator that is not found
says nothing of the release."""


Replan = Callable[[tuple[str, ...]], Path | None]
"""Plan several architectures at once: the file; None where that is blocked."""


def outcomes(
    cases: Sequence["Case"], plans: Path, replan: Replan
) -> Iterator[tuple["Case", str, str]]:
    """Hold each graft of one pair against the donor: the case, the outcome, and why."""
    for begin in range(0, len(cases), BATCH):
        batch = cases[begin : begin + BATCH]
        controls = controls_of(batch[0].donor, [case.architecture for case in batch])
        grafts = ask_grafts(batch, controls, plans, replan)
        for case in batch:
            control = controls[case.architecture]
            if not made(control):
                step = control.get("failed", "no answer")
                yield case, "not runnable here", f"the donor: {step}: {_short(control)}"
            else:
                yield case, *outcome(control, grafts[case.architecture], case.base)


def made(control: Mapping[str, Any]) -> bool:
    """Tell whether the donor made the class, whether or not its tensors' names were found."""
    return "parameters" in control


def published(architecture: str) -> Mapping[str, Any]:
    """Give what is known of this architecture's published configuration: keys of a case (docs/inside.md)."""
    with PUBLISHED.open("rb") as file:
        known = tomllib.load(file).get(architecture, {})
    return {key: value for key, value in known.items() if key != "source"}


def controls_of(version: str, architectures: Sequence[str]) -> dict[str, Any]:
    """Ask the donor; what it made before is not made again, what it failed at only if something changed since."""
    inside = sorted((ROOT / "src/vllm_graft/rehearse").glob("*.py"))
    now = environments.digest(file.read_text() for file in inside)
    folder = environments.cache_folder() / "answers" / "coverage" / version
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    files: dict[str, Path] = {}
    asked: dict[str, Any] = {}
    for name in architectures:
        case = {"architecture": name, **published(name)}
        identity = environments.digest((json.dumps([EVERYWHERE, case], sort_keys=True),))
        files[name] = folder / f"{name}-{identity}.json"
        known = json.loads(files[name].read_text()) if files[name].exists() else None
        if known is not None and ("contents" in known or known["inside"] == now):
            found[name] = known
        else:
            asked[name] = case
    if asked:
        tree = environments.tree(version)
        answers = insides.ask(tree, {"all": EVERYWHERE, "cases": asked})
        for name in asked:
            answer = answers["cases"].get(name, {"error": answers.get("error", "no answer")})
            found[name] = {**answer, "inside": now}
            files[name].write_text(json.dumps(found[name]))
    return found


def ask_grafts(
    batch: Sequence["Case"], controls: Mapping[str, Any], plans: Path, replan: Replan
) -> dict[str, Mapping[str, Any]]:
    """Make the grafted trees, and ask each in a process of its own what the donor was asked."""
    place = environments.cache_folder() / "grafted" / f"coverage-{os.getpid()}"
    base = environments.tree(batch[0].base)
    found: dict[str, Mapping[str, Any]] = {}
    cases: dict[str, Mapping[str, Any]] = {}
    for name in [case.architecture for case in batch if made(controls[case.architecture])]:
        plan: Path | None = plans / f"{name}.json"
        target = (controls[name].get("served_with") or [""])[0]
        if target and not known_to(base, target):
            # A head is served with its target, and that comes along.
            plan = replan((target, name))
        if plan is None:
            found[name] = {"failed": "its target", "error": f"{target}: its plan is blocked"}
            continue
        tree = environments.copy_of(base, place / name)
        done = graft_trees.vllm_graft("apply", plan, tree)
        if done.returncode != 0:
            found[name] = {"failed": "apply", "error": done.stderr}
            continue
        control, known = controls[name], published(name)
        again = {
            "tree": str(tree),
            "architecture": name,
            "configuration": control["configuration"],
            "tensors": control.get("tensors"),
            "served_with": control.get("served_with"),
            **{key: known[key] for key in GIVEN_TO_BOTH if key in known},
            "supply": True,
            "stand_ins": True,
            # A loader that refuses single tensors is not asked again: nothing but the class can be held.
            "until": STEPS_OF_CLASS if control.get("failed") == "tensor names" else None,
        }
        cases[name] = {key: value for key, value in again.items() if value is not None}
    by_transformers: dict[str, list[str]] = {}
    for case in batch:
        if case.architecture in cases:
            by_transformers.setdefault(newer_transformers(case), []).append(case.architecture)
    for newer, names in by_transformers.items():
        asked = {name: cases[name] for name in names}
        answer = insides.ask(base, {"cases": asked}, of_their_own=True, transformers=newer)
        nothing = {"failed": "import", "error": answer.get("error", "no answer")}
        found |= {name: answer["cases"].get(name, nothing) for name in names}
    if cases:
        # For whoever asks why: what a graft said is not kept with the outcomes.
        folder = environments.cache_folder() / "answers" / "coverage" / "grafts" / batch[0].base
        folder.mkdir(parents=True, exist_ok=True)
        for name in cases:
            (folder / f"{name}.json").write_text(json.dumps(found[name]))
    environments.remove(place)
    return found


def newer_transformers(case: "Case") -> str:
    """Give the transformers that a case was planned with, where it is not what its base is run with; else nothing."""
    usual = insides.TRANSFORMERS.get(case.base)
    is_usual = usual is None or f"transformers=={case.transformers}" in usual
    return "" if is_usual else case.transformers


def known_to(base: Path, architecture: str) -> bool:
    """Tell whether a release's registry names an architecture."""
    registry = base / "vllm/model_executor/models/registry.py"
    return f'"{architecture}"' in registry.read_text()


def outcome(
    control: Mapping[str, Any], graft: Mapping[str, Any], base: str = ""
) -> tuple[str, str]:
    """Say whether a graft made what the donor made, and loaded what the donor loaded."""
    unloaded = control.get("failed") == "tensor names"
    ended = ending(control, graft, base)
    if ended is not None:
        return ended
    if not unloaded and renamed(control, graft):
        why = "what the base's own layers are made of has other names there"
        unknown = sorted(_named_by_the_donor(control, graft))
        return "same, other names", f"{why}; not held: {', '.join(unknown)}" if unknown else why
    for part in ("parameters", "buffers"):
        if control[part] != graft[part]:
            names = sorted(
                name
                for name in {*control[part], *graft[part]}
                if control[part].get(name) != graft[part].get(name)
            )
            return f"other {part}", ", ".join(names[:4])
    if unloaded:
        return "constructed the same", f"no weights: {_short(control)}"
    filled = {*graft.get("not_filled", ())} - {*control.get("not_filled", ())}
    if filled:
        return "not filled", ", ".join(sorted(filled)[:4])
    if control.get("contents") != graft.get("contents"):
        return "other contents", ""
    return "same", ", ".join(graft.get("reached", ())[-1:])


def ending(
    control: Mapping[str, Any], graft: Mapping[str, Any], base: str
) -> tuple[str, str] | None:
    """Say where a graft ended before there was anything to hold; None: it did not."""
    if graft.get("failed") == "its target":
        return "not runnable here", str(graft["error"])
    if graft.get("kind") == "TimeLimit":
        return "not runnable here", _short(graft)
    is_made = control.get("failed") == "tensor names" and made(graft)
    if (graft.get("failed") or graft.get("error")) and not is_made:
        return f"fails at {graft.get('failed', 'no answer')}", _short(graft)
    if graft.get("supplied"):
        return "asks for what the donor does not", ", ".join(sorted(graft["supplied"])[:4])
    operators = {
        one
        for one in {*graft.get("stand_ins", ())} - {*control.get("stand_ins", ())}
        if one.startswith("native operator")
    }
    if operators and base not in OTHER_TORCH:
        return "takes hold of what the base has not", ", ".join(sorted(operators)[:4])
    return None


def renamed(control: Mapping[str, Any], graft: Mapping[str, Any]) -> bool:
    """Tell whether a graft loaded the same numbers into the same shapes under other names, and left nothing more unfilled.

    An engine's own layers may hold their parameters deeper in one release than in another (experts: ``routed_experts``).
    """
    if control["parameters"].keys() == graft["parameters"].keys():
        return False
    unknown = _named_by_the_donor(control, graft)
    lost = (
        {*graft.get("not_filled", ())} - {*control.get("not_filled", ())} if unknown else set[str]()
    )
    loaded = {name: value for name, value in control["contents"].items() if name not in unknown}
    same = sorted(control["parameters"].values()) == sorted(graft["parameters"].values()) and (
        sorted(loaded.values())
        == sorted(value for name, value in graft["contents"].items() if name not in lost)
    )
    unfilled = len(graft.get("not_filled", ())) <= len(control.get("not_filled", ())) + len(unknown)
    return same and unfilled and control["buffers"] == graft["buffers"]


def _named_by_the_donor(control: Mapping[str, Any], graft: Mapping[str, Any]) -> set[str]:
    """Tensors that were made up by the name that the donor has for a parameter and the graft has not.

    What a loader takes is asked of the donor's, name by name: a tensor of the engine's own layers may then be called as
    they call it there, and is in no published checkpoint under that name.
    """
    return {
        name
        for name in control.get("tensors") or ()
        if name in control["parameters"] and name not in graft["parameters"]
    }


def _short(answer: Mapping[str, Any]) -> str:
    return " ".join(str(answer.get("error", "")).split())[:200]
