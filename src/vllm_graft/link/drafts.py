# The donor's speculative code turns a target's config into its draft's in one long chain of conditions.
# Read as rules, it says which drafts a family has.
"""Which drafts (MTP heads) the donor's speculative code knows for which models."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vllm_graft.link.tables import SourceTrees
from vllm_graft.link.vllm import DRAFT_NAMES_PATH, OVERRIDE, SPECULATIVE_PATH, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRule:
    """One ``if`` of the function that turns a target's config into its draft's."""

    line: int
    tested: frozenset[str]
    """Strings that the conditions compare with: model types and architectures."""
    model_types: frozenset[str]
    """That the branch sets."""
    architectures: tuple[str, ...]
    """Registered ones that the branch names."""


def draft_rules(layout: Layout, trees: SourceTrees) -> Iterator[DraftRule]:
    """Read the ``if`` statements of the speculative override, in order."""
    tree = trees.tree(SPECULATIVE_PATH)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == OVERRIDE:
            for statement in node.body:
                if isinstance(statement, ast.If):
                    yield from _rules_of(layout, statement)


def _rules_of(layout: Layout, statement: ast.If) -> Iterator[DraftRule]:
    set_types: set[str] = set()
    for inner in (node for line in statement.body for node in ast.walk(line)):
        match inner:
            case ast.Assign(
                targets=[ast.Attribute(attr="model_type")], value=ast.Constant(value=str(text))
            ):
                set_types.add(text)
            case _:
                pass
    named = [text for line in statement.body for text in _strings(line)]
    tested = frozenset(_strings(statement.test))
    yield DraftRule(
        line=statement.lineno,
        tested=tested,
        model_types=frozenset(set_types),
        architectures=tuple(
            dict.fromkeys(
                name for name in named if name in layout.by_architecture and name not in tested
            )
        ),
    )
    for other in statement.orelse:
        if isinstance(other, ast.If):
            yield from _rules_of(layout, other)


def _strings(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def draft_prefixes(trees: SourceTrees) -> frozenset[str]:
    """Read what may be put before the name of a draft's architecture: ``DFlash`` in ``f"DFlash{arch}"``."""
    tree = trees.tree(DRAFT_NAMES_PATH)
    found: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), ast.FormattedValue()]):
                found.add(prefix)
            case _:
                pass
    return frozenset(found)


def fired_rules(rules: Sequence[DraftRule], family: set[str]) -> tuple[DraftRule, ...]:
    """Keep the rules that this family meets, in order: one may lead to the next."""
    met = set(family)
    fired: list[DraftRule] = []
    for rule in rules:
        if rule.tested & met and (rule.model_types or rule.architectures):
            fired.append(rule)
            met |= rule.model_types
    return tuple(fired)


def target_words(rules: Sequence[DraftRule], asked: set[str]) -> set[str]:
    """Give what leads to a draft that is asked for by itself: types and architectures, backwards."""
    found: set[str] = set()
    for rule in reversed(rules):
        if asked & {*rule.architectures} or found & rule.model_types:
            found |= rule.tested
    return found
