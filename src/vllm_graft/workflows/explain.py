# Reads the table that is shipped in the package, and a plan; the one workflow that needs no source.
"""Explain a code."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from vllm_graft.errors import RequestError
from vllm_graft.report.explanation import explanation_of, render_explanation
from vllm_graft.report.form import Form
from vllm_graft.report.ink import Ink
from vllm_graft.report.rules import (
    Rule,
    find_rule,
    is_code,
    parse_rules,
    render_rule,
    render_rules,
)
from vllm_graft.run.files import read_bytes
from vllm_graft.values.codec import decode_plan


@cache
def read_rules() -> Mapping[str, Rule]:
    """Give every code that this version can print."""
    data = files("vllm_graft") / "data"
    tables = [
        tomllib.loads((data / name).read_text(encoding="utf-8"))
        for name in ("rules.toml", "node_rules.toml")
    ]
    return {code: rule for table in tables for code, rule in parse_rules(table).items()}


def explain(code: str, form: Form) -> str:
    """Say what a code means; an empty one lists them all.

    Raises:
        RequestError: there is no such code.
    """
    rules = read_rules()
    return render_rule(find_rule(rules, code), form) if code else render_rules(rules, form)


def explain_in_plan(asked: str, plan_file: str, form: Form, ink: Ink) -> str:
    """Say what a plan holds about a code, a name of the donor's, or a resolution; of all its findings without one.

    Raises:
        RequestError: there is no such code, nothing of that name in the plan, or the file is no plan.
    """
    try:
        content = read_bytes(plan_file)
    except OSError as failure:
        raise RequestError(
            f"{plan_file} cannot be read: {failure.strerror}",
            remedy="give a plan.json as written by `vllm-graft plan -o plan.json`",
            code="E213",
        ) from failure
    plan = decode_plan(content, where=plan_file)
    rule = find_rule(read_rules(), asked) if is_code(asked) else None
    return render_explanation(explanation_of(plan, asked, rule), form, ink)
