# The rows of data/rules.toml as values, and their three renderings. Policy and words are data: code that finds
# something names a code, and everything that is said about it at length stands in the table.
"""What each finding and error code means."""

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from vllm_graft.errors import RequestError
from vllm_graft.report.form import Form

_CODE = re.compile(r"[EGN]\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One code."""

    code: str
    kind: str
    """``blocked``, ``review`` or ``note`` for a finding (what it usually is), ``exit 4`` for an error."""
    title: str
    explanation: str
    """One or more paragraphs."""
    remedy: str


def parse_rules(table: Mapping[str, Any]) -> Mapping[str, Rule]:
    """Read the decoded table; code → rule, in the order of the file."""
    return {code: _rule(code, row) for code, row in table.items()}


def is_code(text: str) -> bool:
    """Tell a code, however it was copied, from a name."""
    return _CODE.fullmatch(_bare(text)) is not None


def _bare(code: str) -> str:
    return code.strip().upper().removeprefix("ERROR[").removesuffix("]")


def find_rule(rules: Mapping[str, Rule], code: str) -> Rule:
    """Look a code up, in any case.

    Raises:
        RequestError: there is no such code; the closest ones are offered.
    """
    wanted = _bare(code)
    if (rule := rules.get(wanted)) is not None:
        return rule
    close = get_close_matches(wanted, rules, n=3, cutoff=0.5)
    raise RequestError(
        f"there is no code {code!r}",
        remedy=f"Did you mean {' or '.join(close)}? `vllm-graft explain` lists all."
        if close
        else "Codes are three digits behind G for findings about code, N for those about nodes, E for errors:"
        " `vllm-graft explain` lists all.",
    )


def render_rule(rule: Rule, form: Form) -> str:
    """Say at length what a code means."""
    if form == "json":
        fields = {
            "code": rule.code,
            "kind": rule.kind,
            "title": rule.title,
            "explanation": rule.explanation,
            "remedy": rule.remedy,
        }
        return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"
    if form == "markdown":
        return (
            f"### {rule.code}: {rule.title}\n\n*{rule.kind}*\n\n{rule.explanation}\n\n"
            f"**What to do:** {rule.remedy}\n"
        )
    body = "\n\n".join(textwrap.fill(part, 88) for part in rule.explanation.split("\n\n"))
    remedy = textwrap.fill(rule.remedy, 88, initial_indent="help: ", subsequent_indent="      ")
    kind = rule.kind if rule.kind.startswith("exit") else f"usually {rule.kind}"
    return f"{rule.code} ({kind}): {rule.title}\n\n{body}\n\n{remedy}\n"


def render_rules(rules: Mapping[str, Rule], form: Form) -> str:
    """List all codes: a line each in text, the whole page in Markdown."""
    if form == "json":
        return json.dumps([json.loads(render_rule(rule, "json")) for rule in rules.values()]) + "\n"
    if form == "markdown":
        return "\n".join(render_rule(rule, "markdown") for rule in rules.values())
    return "".join(f"{rule.code}  {rule.kind:8}  {rule.title}\n" for rule in rules.values())


def _rule(code: str, row: Mapping[str, Any]) -> Rule:
    return Rule(
        code=code,
        kind=str(row["severity"]) if "severity" in row else f"exit {row['exit']}",
        title=str(row["title"]),
        explanation="\n\n".join(
            " ".join(part.split()) for part in str(row["explanation"]).strip().split("\n\n")
        ),
        remedy=str(row["remedy"]),
    )
