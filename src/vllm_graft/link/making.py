# Where the base's version of a model class serves in place of the donor's, a checkpoint made for the donor's has to
# fit it, and the numbers have to come out the same: the constructors make the same parts under the same names, the loaders
# look for the same names, and what computes is the same code. Constructors and loaders may be written otherwise.
"""Do two versions of a class make the same parts, load the same names and compute the same?"""

import ast
from collections.abc import Iterator

from vllm_graft.link.compare import same_shape
from vllm_graft.link.index import Found, Index, is_inside
from vllm_graft.link.pair import Pair
from vllm_graft.link.scopes import dotted
from vllm_graft.link.syntax import every_node

_NOT_COMPUTED = frozenset({"__init__", "load_weights", "get_expert_mapping"})
_LOADERS = ("load_weights", "get_expert_mapping", "packed_modules_mapping", "hf_to_vllm_mapper")


def makes_alike(pair: Pair, donor: Found, base: Found) -> bool:
    """Tell whether two versions of a class make parts of the same names and classes, all the way down."""
    seen: set[str] = set()
    pending = [(donor, base)]
    while pending:
        ours, theirs = pending.pop()
        if ours.dotted in seen:
            continue
        seen.add(ours.dotted)
        if pair.comparison.same_all_the_way(ours, theirs):
            continue
        if ours.definition.kind != "class" or theirs.definition.kind != "class":
            return False
        mine, other = _parts(pair.donor, ours), _parts(pair.base, theirs)
        if mine != other or _loaded(pair.donor, ours) != _loaded(pair.base, theirs):
            return False
        if not _computes_alike(ours, theirs):
            return False
        # Not only what is called: a constructor may choose a class and call it by another name.
        for name in sorted({*ours.definition.names, *(n for _, made in mine for n in made)}):
            inner = _model_code(pair, pair.donor, ours, name)
            if inner is None:
                continue
            counterpart = _model_code(pair, pair.base, theirs, name)
            if counterpart is None:
                return False
            pending.append((inner, counterpart))
    return True


def _computes_alike(ours: Found, theirs: Found) -> bool:
    """Tell whether methods and class values of two versions are the same, constructors and loaders apart."""
    mine, other = (
        {
            name: member.node
            for name, member in found.definition.members.items()
            if member.kind != "instance" and name not in _NOT_COMPUTED
        }
        for found in (ours, theirs)
    )
    return mine.keys() == other.keys() and all(same_shape(mine[n], other[n]) for n in mine)


def _model_code(pair: Pair, index: Index, owner: Found, name: str) -> Found | None:
    """The class or function that a name means where ``owner`` is written, if it is a model's own code."""
    reached = index.resolve_dotted(owner.module, name)
    if reached is None or reached[1] or not is_inside(reached[0].module):
        return None
    found = reached[0]
    is_of_models = found.module == owner.module or pair.room_of(found.module) != "engine"
    return found if found.definition.kind in {"class", "function"} and is_of_models else None


def _parts(index: Index, found: Found) -> frozenset[tuple[str, frozenset[str]]]:
    """What the constructors make: attribute → names that are called for it, calls of plain functions too."""
    made: set[tuple[str, frozenset[str]]] = set()
    for item in index.ancestry(found).classes:
        initializer = item.definition.members.get("__init__")
        if initializer is None or initializer.function is None:
            continue
        made |= {part for node in every_node(initializer.function) for part in _assigned(node)}
    return frozenset(made)


def _assigned(node: ast.AST) -> Iterator[tuple[str, frozenset[str]]]:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return
    called = frozenset(
        name
        for inner in ast.walk(node.value)
        if isinstance(inner, ast.Call) and (name := dotted(inner.func)) is not None
        if name.rpartition(".")[2][:1].isupper()
    )
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for inner in ast.walk(target):
            if isinstance(inner, ast.Attribute) and called:
                yield inner.attr, called


def _loaded(index: Index, found: Found) -> frozenset[str]:
    """Every string in what maps and loads a checkpoint's names."""
    members = [p[1] for name in _LOADERS if (p := index.member(found, name)) is not None]
    return frozenset(
        node.value
        for member in members
        for node in ast.walk(member.node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value
    )
