# ``type(x) is Layer`` does not hold for a class that is derived from Layer. Most of the base's engine asks ``isinstance``;
# where it asks for the exact type, a layer of the graft is passed over. Adapters (LoRA) are the one feature that does: a
# model that does not say that it takes any is refused by the engine as soon as one is asked for, with its own words.
"""Exact types that the base asks for, of classes that the graft derives from."""

import ast
import re
from collections.abc import Iterable, Iterator

from vllm_graft.link.index import Found, Index
from vllm_graft.link.linked import Linked, Rewrite
from vllm_graft.link.resolution import Derivation
from vllm_graft.link.scopes import dotted
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import span_of
from vllm_graft.link.vllm import ADAPTER_INTERFACE, ADAPTERS
from vllm_graft.values.finding import Finding, Severity, Site
from vllm_graft.values.install import Files

# Coarse: what these let through is read closely.
_EXACT = (
    re.compile(rb"type\([^()\n]*(?:\([^()\n]*\)[^()\n]*)?\)\s*(?:is\b|==|!=|in\b|not\b)"),
    re.compile(rb"__class__\s*(?:is\b|==|!=|in\b|not\b)"),
    re.compile(rb"(?:is|not|==|!=|in) type\("),
)


def refuse_adapters(linked: Linked) -> None:
    """Take back that the models that were asked for take adapters, where the base's adapters would pass a layer over."""
    if not any(path.startswith(ADAPTERS) for path, _, _ in _questions(linked)):
        return
    decisions = linked.decisions
    rewrites: list[Rewrite] = []
    for required in sorted(decisions.required):
        module, _, name = required.rpartition(".")
        root = decisions.donor.class_named(module, name)
        for item in () if root is None else decisions.donor.ancestry(root).classes:
            claim = _claim(decisions.donor, item)
            if claim is None:
                continue
            if not decisions.is_grafted(item):
                return
            rewrites.append(
                Rewrite(
                    module=item.module,
                    span=span_of(claim),
                    text="",
                    note=f"line {claim.lineno}: {item.name} does not say that it takes adapters: the base's would"
                    " pass a derived layer over",
                )
            )
    linked.rewrites.extend(dict.fromkeys(rewrites))
    linked.refuses_adapters = True


def check_exact_types(linked: Linked) -> Iterator[Finding]:
    """Find places in the base that ask for the exact type of a class that the graft derives from."""
    told: set[tuple[str, str]] = set()
    for path, line, derivation in _questions(linked):
        if (path, derivation.base.dotted) in told:
            continue
        told.add((path, derivation.base.dotted))
        is_refused = path.startswith(ADAPTERS) and linked.refuses_adapters
        severity: Severity = "note" if is_refused else "review"
        remedy = (
            "where this code runs for the model (LoRA, some quantisations), the grafted layer is passed over; try"
            " that feature before relying on it"
        )
        if is_refused:
            remedy = (
                "repaired: it is for adapters (LoRA), and the grafted model does not say that it takes any: the"
                " engine refuses them for it"
            )
        yield Finding(
            code="G213",
            severity=severity,
            site=Site(install="base", path=path, line=line),
            wanted=f"an instance of a class derived from {derivation.base.dotted}",
            found=f"the base compares the exact type with {derivation.base.name}",
            remedy=remedy,
            comparison=derivation.donor.dotted,
        )


def _questions(linked: Linked) -> Iterator[tuple[str, int, Derivation]]:
    """Path, line and class of each comparison with an exact type."""
    base = linked.decisions.base
    derived = {each.base.dotted: each for each in linked.decisions.derived.values()}
    by_name = {each.base.name: place for place, each in derived.items()}
    for path in _asking_types(base.files, sorted(by_name)):
        module = base.module_at(path)
        for node in every_node(base.tree(module)):
            for name in _compared_types(node) if isinstance(node, ast.Compare) else ():
                place = _class_behind(base, module, name)
                derivation = derived.get(by_name.get(name, "") if place is None else place)
                if derivation is not None:
                    yield path, getattr(node, "lineno", 0), derivation


def _claim(donor: Index, found: Found) -> ast.expr | None:
    """The base of a class by which it says that it takes adapters."""
    node = found.definition.node
    for parent in node.bases if isinstance(node, ast.ClassDef) else ():
        name = dotted(parent)
        reached = None if name is None else donor.parent_named(found, name)
        if reached is not None and reached.name == ADAPTER_INTERFACE:
            return parent
    return None


def _class_behind(base: Index, module: str, name: str) -> str | None:
    """Dotted class that a name means in a module; None for what is imported inside a function."""
    if base.resolve(module, name.partition(".")[0]) is None:
        return None
    found = base.class_named(module, name)
    return "" if found is None else found.dotted


def _asking_types(files: Files, names: Iterable[str]) -> Iterator[str]:
    """Files in which the exact type of a class of one of these names may be asked for."""
    for path in dict.fromkeys(path for name in names for path in files.containing(name.encode())):
        text = files.read(path)
        if any(pattern.search(text) for pattern in _EXACT):
            yield path


def _compared_types(node: ast.Compare) -> Iterator[str]:
    """Dotted names of the classes with which a comparison compares an exact type."""
    parts = (node.left, *node.comparators)
    if not any(is_type_of(part) for part in parts):
        return
    for part in parts:
        for element in part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else (part,):
            if not is_type_of(element) and (name := dotted(element)) is not None:
                yield name


def is_type_of(node: ast.expr) -> bool:
    """Tell ``type(x)`` and ``x.__class__``."""
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[_]) | ast.Attribute(attr="__class__"):
            return True
        case _:
            return False
