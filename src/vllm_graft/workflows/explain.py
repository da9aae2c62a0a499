# Reads the table that is shipped in the package; the one workflow that needs no source.
"""Explain a code."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from vllm_graft.report.form import Form
from vllm_graft.report.rules import Rule, find_rule, parse_rules, render_rule, render_rules


def read_rules() -> Mapping[str, Rule]:
    """Give every code that this version can print."""
    text = (files("vllm_graft") / "data" / "rules.toml").read_text(encoding="utf-8")
    return parse_rules(tomllib.loads(text))


def explain(code: str, form: Form) -> str:
    """Say what a code means; an empty one lists them all.

    Raises:
        RequestError: there is no such code.
    """
    rules = read_rules()
    return render_rule(find_rule(rules, code), form) if code else render_rules(rules, form)
