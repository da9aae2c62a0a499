# What "the same tokens" means, and how it is asked for. Pure, but for `serve` at the end, which starts children.
"""Compare what two trees say about one tiny model."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
from environments import ask_inside, model_folder
from tiny_models import EVERY, TinyModel

CANDIDATES = 8
"""Prompts that are sent; at least PROMPTS of them must meet the margin in the donor."""
PROMPTS = 3
PROMPT_TOKENS = 36
NEW_TOKENS = 18
MARGIN = 1e-2
"""Nats by which the donor's best token beats its second, at every step of a prompt that counts."""
TOLERANCE = 1e-4
"""Nats (or vector components) by which the two trees may differ: float32, the same kernels, the same batch.
A hundredth of the margin, so that no difference within it can change a token."""


REFUSALS = ("NotImplementedError", "ValidationError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome: the same, or in which respect not."""

    architecture: str
    differences: tuple[str, ...]
    prompts: int
    """How many prompts met the margin and were compared."""
    tokens: int
    smallest_margin: float
    largest_difference: float
    dummy_weights: bool

    @property
    def same(self) -> bool:
        """Tell whether the trees agree in everything that was compared."""
        return not self.differences


def told(outcome: Comparison) -> str:
    """One line for one comparison."""
    weights = "dummy weights, filled by name" if outcome.dummy_weights else "checkpoint"
    if outcome.same:
        return (
            f"SAME {outcome.architecture}: {outcome.prompts} prompts, {outcome.tokens} tokens, "
            f"smallest margin {outcome.smallest_margin:.3f}, largest difference "
            f"{outcome.largest_difference:.1e} ({weights})"
        )
    return "\n  ".join((f"DIFFERENT {outcome.architecture} ({weights})", *outcome.differences))


class UnusableControlError(AssertionError):
    """The donor's own answers cannot carry a comparison: too small margins, or a repeating output."""


def prompts(architecture: str) -> list[list[int]]:
    """Give the candidate prompts, the same on every machine and every day."""
    chosen = random.Random(f"prompts of {architecture}")  # noqa: S311 - nothing secret
    return [[chosen.randrange(256) for _ in range(PROMPT_TOKENS)] for _ in range(CANDIDATES)]


def repeats(tokens: Sequence[int]) -> bool:
    """Tell whether an output, or its second half, is constant or of period 2."""
    half = tokens[len(tokens) // 2 :]
    return any(part[p:] == part[:-p] for part in (list(tokens), list(half)) for p in (1, 2))


def margins(output: Mapping[str, Any]) -> list[float]:
    """Give the distance between best and second at each step."""
    return [best - second for best, second in zip(output["best"], output["second"], strict=True)]


def usable(donor: Mapping[str, Any], architecture: str) -> list[int]:
    """Give the prompts whose donor answers can carry a comparison.

    Raises:
        UnusableControlError: fewer than PROMPTS of them do.
    """
    found = [
        index
        for index, output in enumerate(donor["outputs"])
        if min(margins(output)) > MARGIN and not repeats(output["tokens"])
    ]
    if len(found) < PROMPTS:
        seen = [
            (round(min(margins(output)), 4), repeats(output["tokens"]))
            for output in donor["outputs"]
        ]
        message = f"{architecture}: only {len(found)} usable prompts (margin, repeats): {seen}"
        raise UnusableControlError(message)
    return found


def compare(donor: Mapping[str, Any], grafted: Mapping[str, Any], model: TinyModel) -> Comparison:
    """Compare the answers of two trees to the same job.

    Raises:
        UnusableControlError: the donor failed, or its answers cannot carry a comparison.
    """
    if "error" in donor:
        message = f"{model.architecture}: the donor itself fails: {donor['error']}"
        raise UnusableControlError(message)
    name = model.architecture
    if "error" in grafted:
        return Comparison(
            architecture=name,
            differences=(f"the grafted tree fails: {grafted['error']}",),
            prompts=0,
            tokens=0,
            smallest_margin=0.0,
            largest_difference=float("inf"),
            dummy_weights=model.filled_by_vllm,
        )
    if model.task == "embed":
        return _compare_vectors(donor, grafted, model)
    return _compare_tokens(donor, grafted, model)


def _compare_tokens(
    donor: Mapping[str, Any], grafted: Mapping[str, Any], model: TinyModel
) -> Comparison:
    differences = []
    chosen = usable(donor, model.architecture)
    largest = 0.0
    for index in chosen:
        want, got = donor["outputs"][index], grafted["outputs"][index]
        if want["tokens"] != got["tokens"]:
            step = next(
                i
                for i, pair in enumerate(zip(want["tokens"], got["tokens"], strict=False))
                if pair[0] != pair[1]
            )
            differences.append(
                f"prompt {index}: token {step} is {got['tokens'][step]}, the donor says "
                f"{want['tokens'][step]}"
            )
            largest = float("inf")
            continue
        for kind in ("best", "second"):
            gap = max(abs(a - b) for a, b in zip(want[kind], got[kind], strict=True))
            largest = max(largest, gap)
            if gap > TOLERANCE:
                differences.append(
                    f"prompt {index}: logprobs of the {kind} token differ by {gap:.2e}"
                )
    if donor.get("drafts") != grafted.get("drafts"):
        differences.append("the draft model proposes other tokens")
    return Comparison(
        architecture=model.architecture,
        differences=tuple(differences),
        prompts=len(chosen),
        tokens=sum(len(donor["outputs"][i]["tokens"]) for i in chosen),
        smallest_margin=min(min(margins(donor["outputs"][i])) for i in chosen),
        largest_difference=largest,
        dummy_weights=model.filled_by_vllm,
    )


def _compare_vectors(
    donor: Mapping[str, Any], grafted: Mapping[str, Any], model: TinyModel
) -> Comparison:
    vectors, other = donor["vectors"], grafted["vectors"]
    # The counterpart of the margin: vectors of different prompts must lie apart, else any answer would pass.
    apart = min(
        max(abs(a - b) for a, b in zip(one, two, strict=True))
        for i, one in enumerate(vectors)
        for two in vectors[:i]
    )
    if apart < MARGIN:
        message = (
            f"{model.architecture}: the donor's vectors of two prompts differ by {apart:.2e} only"
        )
        raise UnusableControlError(message)
    gaps = [
        max(abs(a - b) for a, b in zip(one, two, strict=True))
        for one, two in zip(vectors, other, strict=True)
    ]
    return Comparison(
        architecture=model.architecture,
        differences=tuple(
            f"prompt {i}: vectors differ by {gap:.2e}"
            for i, gap in enumerate(gaps)
            if gap > TOLERANCE
        ),
        prompts=len(vectors),
        tokens=0,
        smallest_margin=apart,
        largest_difference=max(gaps),
        dummy_weights=model.filled_by_vllm,
    )


def recipe(model: TinyModel) -> dict[str, Any]:
    """Give what inside_checkpoints.py needs to write this model."""
    return {
        "architecture": model.served_as or model.architecture,
        "config_class": model.config_class,
        "model_class": model.model_class,
        "config": dict(model.config),
        "config_json": dict(model.config_json),
        "files": dict(model.files),
        "renames": [list(pair) for pair in model.renames],
        "seed": model.seed,
        "gain": model.gain,
        "head_gain": model.head_gain,
        "embed_gain": model.embed_gain,
    }


def job(name: str, *, perturbed: bool = False) -> dict[str, Any]:
    """Give the request to inside_tokens.py for one model, writing the model first."""
    model = EVERY[name]
    folder = model_folder(recipe(model), name)
    served = folder
    engine: dict[str, Any] = {"model_impl": model.model_impl, **model.engine}
    fill = model.filled_by_vllm
    if model.speculative is not None:
        engine["speculative_config"] = dict(model.speculative)
        if model.draft_of is not None:
            target = EVERY[model.draft_of]
            served = model_folder(recipe(target), model.draft_of)
            engine = {**target.engine, **engine}
            engine["speculative_config"]["model"] = str(folder)
            fill = fill or target.filled_by_vllm
    request: dict[str, Any] = {
        "name": name,
        "model": str(served),
        "task": model.task,
        "engine": engine,
        "prompts": prompts(model.architecture),
        "new_tokens": NEW_TOKENS,
        "fill": {"seed": model.seed, "gain": model.gain, "head_gain": model.head_gain}
        if fill
        else None,
        "cast": model.cast,
        "perturb": None,
    }
    if perturbed:
        request["name"] = f"{name} perturbed"
        request["perturb"] = {"name": model.perturb, "factor": 1.05}
    return request


def serve(
    tree: Path,
    names: Sequence[str],
    *,
    perturbed: Sequence[str] = (),
    known: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Serve these models with the vLLM of one tree, all in one child.

    A job that failed is asked again in a child of its own, so that no failure is another job's doing; but not
    where vLLM refused it outright, or for the reason in ``known``. What an untouched release says is kept: the same question has the same answer.
    """
    jobs = [job(name) for name in names] + [job(name, perturbed=True) for name in perturbed]
    places = {request["name"]: environments.kept_answer(tree, request) for request in jobs}
    answers: dict[str, Any] = {
        name: json.loads(place.read_text())
        for name, place in places.items()
        if place is not None and place.exists()
    }
    asked = [request for request in jobs if request["name"] not in answers]
    answers |= _serve(tree, asked, known or {}) if asked else {}
    for request in asked:
        place, answer = places[request["name"]], answers.get(request["name"])
        if place is not None and answer is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(answer))
    return answers


def _serve(tree: Path, jobs: Sequence[dict[str, Any]], known: Mapping[str, str]) -> dict[str, Any]:
    answers = ask_inside(tree, "inside_tokens.py", jobs, timeout=240 * len(jobs))
    for index, request in enumerate(jobs):
        name = request["name"]
        error = answers.get(name, {"error": "no answer"}).get("error", "")
        is_known = error.startswith(REFUSALS) or (name in known and known[name] in error)
        if error and not is_known and (index > 0 or name not in answers):
            answers |= ask_inside(tree, "inside_tokens.py", [request], timeout=300)
    return answers
