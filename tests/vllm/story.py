# The story's case as questions to a tree, and what its answers must be. The hand recipe is here too: what people
# do today, and the failure that it ends in.
"""Ask a tree whether it can configure, construct and load Qwen3.5, its MTP heads and its parser."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import published
from environments import ask_inside, copy_of, model_folder
from parity import recipe
from tiny_models import CONTROLS

MTP: Mapping[str, Any] = {"method": "mtp", "num_speculative_tokens": 1}
EXPERTS: tuple[published.Experts, ...] = ("dense", "fused", "per-expert")
MAIN_CLASSES = ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")
MTP_CLASSES = ("Qwen3_5MTP", "Qwen3_5MoeMTP")
PARSER_TEXTS = (
    "so this is thought</think>and this is said",
    "<think>thought</think>said",
    "thought to the end",
    "</think>said at once",
)
"""The first is the case of Qwen3.5: the chat template opens <think> in the prompt, the model only closes it."""


def story_models() -> dict[str, Path]:
    """Write the three checkpoints: dense, and a mixture of experts under both namings."""
    return {kind: model_folder(published.recipe(kind), f"story-{kind}") for kind in EXPERTS}


def story_cases() -> dict[str, Any]:
    """Give the cases: each checkpoint as it is, and served with its MTP head."""
    found: dict[str, Any] = {}
    for kind, folder in story_models().items():
        found[kind] = {"model": str(folder)}
        found[f"{kind}, MTP"] = {"model": str(folder), "engine": {"speculative_config": dict(MTP)}}
    return found


def control_cases() -> dict[str, Any]:
    """Give cases that the plain base must pass: what it knows already, loaded the same way."""
    return {
        name: {"model": str(model_folder(recipe(model), name))} for name, model in CONTROLS.items()
    }


def parser_question(parser: str) -> dict[str, Any]:
    """Ask how a reasoning parser splits the texts."""
    return {
        "model": str(model_folder(published.recipe("dense"), "story-dense")),
        "parser": parser,
        "texts": list(PARSER_TEXTS),
    }


def ask(
    tree: Path,
    cases: Mapping[str, Any],
    *,
    registry: Sequence[str] = (),
    parsers: Sequence[str] = (),
    log: Path | None = None,
) -> Any:
    """Ask one tree, all in one child."""
    request = {
        "cases": dict(cases),
        "registry": list(registry),
        "parsers": {name: parser_question(name) for name in parsers},
    }
    return ask_inside(tree, "inside_load.py", request, log=log)


def faults(case: Mapping[str, Any]) -> list[str]:
    """Tell in which respects a case falls short; empty: it was configured, constructed and wholly loaded."""
    if "error" in case:
        return [f"at {case['stage']}: {case['error']}"]
    found = []
    for part in ("target", "draft"):
        if part not in case:
            continue
        report = case[part]
        if report["still_nan"]:
            found.append(f"{part}: not filled: {', '.join(report['still_nan'])}")
        if report["not_reported"]:
            found.append(f"{part}: not reported as loaded: {', '.join(report['not_reported'])}")
        if not report["parameters"] or report["loaded"] != report["parameters"]:
            found.append(f"{part}: {report['loaded']} of {report['parameters']} parameters loaded")
    return found


def unlike_donor(donor: Mapping[str, Any], grafted: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Compare a grafted tree's answers with the donor's own, one statement and its truth for each thing.

    Parameters of the same name must hold the same numbers, so that a tensor loaded into the wrong rows is seen.
    """
    found = []
    splits = [
        [split.get(kind) for kind in ("whole", "streamed")]
        for answer in (donor, grafted)
        for split in answer["parsers"].values()
    ]
    if splits:
        found.append(("the parser splits as in the donor", splits[0] == splits[1] != [None, None]))
    for name, case in grafted["cases"].items():
        for part in ("target", "draft"):
            mine, theirs = case.get(part), donor["cases"][name].get(part)
            if mine is None and theirs is None:
                continue
            if mine is None or theirs is None:
                found.append((f"{name}: {part} is loaded by one of the two only", False))
                continue
            odd = sorted(
                key
                for key in mine["contents"].keys() | theirs["contents"].keys()
                if mine["contents"].get(key) != theirs["contents"].get(key)
            )
            said = f"differ: {', '.join(odd[:6])}" if odd else "hold what they hold in the donor"
            found.append((f"{name}: parameters of the {part} {said}", not odd))
    return found


FOUR_FILES = (
    "vllm/model_executor/models/qwen3_5.py",
    "vllm/model_executor/models/qwen3_5_mtp.py",
    "vllm/transformers_utils/configs/qwen3_5.py",
    "vllm/transformers_utils/configs/qwen3_5_moe.py",
)


def hand_recipe(base: Path, donor: Path, out: Path) -> Path:
    """Do what people do by hand: copy four files, add lines to the registry and to the config maps.

    Source: the Dockerfiles described in the project's notes on practice: COPY --from, and a script that
    edits registry.py.
    """
    grafted = copy_of(base, out)
    for path in FOUR_FILES:
        shutil.copy2(donor / path, grafted / path)
    _insert(
        grafted / "vllm/model_executor/models/registry.py",
        r"^_MULTIMODAL_MODELS = \{$",
        "".join(f'    "{name}": ("qwen3_5", "{name}"),\n' for name in MAIN_CLASSES),
    )
    _insert(
        grafted / "vllm/model_executor/models/registry.py",
        r"^_SPECULATIVE_DECODING_MODELS = \{$",
        "".join(f'    "{name}": ("qwen3_5_mtp", "{name}"),\n' for name in MTP_CLASSES),
    )
    _insert(
        grafted / "vllm/transformers_utils/config.py",
        r"^_CONFIG_REGISTRY: .*LazyConfigDict\($",
        '    qwen3_5="Qwen3_5Config",\n    qwen3_5_moe="Qwen3_5MoeConfig",\n',
    )
    _insert(
        grafted / "vllm/transformers_utils/configs/__init__.py",
        r"^_CLASS_TO_MODULE.* = \{$",
        "".join(
            f'    "{name}": "vllm.transformers_utils.configs.{module}",\n'
            for module, names in {
                "qwen3_5": ("Qwen3_5Config", "Qwen3_5TextConfig"),
                "qwen3_5_moe": ("Qwen3_5MoeConfig", "Qwen3_5MoeTextConfig"),
            }.items()
            for name in names
        ),
    )
    return grafted


def _insert(file: Path, after: str, lines: str) -> None:
    text = file.read_text()
    changed, count = re.subn(
        f"({after}\n)", lambda m: m.group(1) + lines, text, count=1, flags=re.MULTILINE
    )
    assert count == 1, f"{file}: nothing matches {after}"
    file.write_text(changed)
