# Which rendering belongs to which form. JSON is the plan itself, byte for byte what `-o` writes.
"""The result of ``plan`` on stdout."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan_markdown import render_plan_markdown
from vllm_graft.report.plan_text import render_plan_text
from vllm_graft.report.plan_view import view_plan
from vllm_graft.report.route_view import view_route
from vllm_graft.report.rules import Rule
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.receipt import NOTHING_TO_DO_SCHEMA, NothingToDo


def render_plan(
    plan: GraftPlan, rules: Mapping[str, Rule], form: Form, ink: Ink | None = None
) -> str:
    """Render a plan; ``ink`` is for text on a terminal."""
    if form == "json":
        return encode_plan(plan).decode()
    view = view_plan(plan, rules)
    return (
        render_plan_markdown(view) if form == "markdown" else render_plan_text(view, ink or Ink())
    )


def render_nothing_to_do(nothing: NothingToDo, form: Form) -> str:
    """Say that the base has it all already, and where."""
    base = nothing.base
    if form == "json":
        value = {
            "schema": NOTHING_TO_DO_SCHEMA,
            "base": {"source": base.source, "version": base.version, "digest": str(base.digest)},
            "present": list(nothing.present),
            "route": asdict(nothing.route),
        }
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    quote = "`" if form == "markdown" else ""
    route = view_route(nothing.route)
    before = () if route is None else (f"Route: {route.headline}", "")
    lines = [
        *before,
        f"Nothing to do: vLLM {base.version} ({quote}{base.source}{quote}) has it already.",
    ]
    if form == "markdown":
        lines.append("")
    lines += [f"{'-' if form == 'markdown' else ' '} {sentence}" for sentence in nothing.present]
    if form == "markdown":
        lines.append("")
    lines.append(
        "The base's own models serve; they were not compared with the donor's, which may be newer."
    )
    return "\n".join(lines) + "\n"
