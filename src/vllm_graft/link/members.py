# Members of collections: registries, maps, lists of model types. The most common kind of site by far.
"""Adding the family's members to the base's collections."""

import ast
from collections.abc import Sequence

from vllm_graft.link.excerpt import Retargeting
from vllm_graft.link.places import Spot, matching_collection, members
from vllm_graft.link.surgery import Addition
from vllm_graft.link.tables import assigned_values, path_of
from vllm_graft.link.units import Unit
from vllm_graft.link.vllm import REGISTRY_PATH, registry_takes_full_paths, written_module
from vllm_graft.link.workbench import Outcome, Workbench


def member(bench: Workbench, unit: Unit, path: str) -> Outcome | None:
    """Add a member of a collection to the same collection of the base."""
    if id(unit.node) not in bench.found:
        bench.found[id(unit.node)] = matching_collection(unit.ancestors, unit.at, path, bench.base)
    spot = bench.found[id(unit.node)]
    if spot is None and path == REGISTRY_PATH and isinstance(unit.node, ast.Dict):
        spot = _kindred_table(bench, unit)
    if spot is None or not isinstance(spot.node, ast.expr):
        return None
    retargeting = Retargeting(modules=bench.grafted, operators=bench.operators)
    label = retargeting.word(unit.label)
    there = dict(members(spot.node))
    given = dict(members(unit.node))[unit.label]
    if label in there:
        return _present(bench, label, there[label], given, spot)
    try:
        source = _member_source(bench, unit, path, label, given)
    except LookupError as error:
        return Outcome(decision="refuse", reason=str(error.args[0]), base_path=spot.path)
    if isinstance(unit.node, ast.Dict | ast.Call):
        outcome = bench.bind([given], frozenset(), path, spot)
        if outcome is not None:
            return outcome
    why = f"{_variable_name(unit)} lists {label}"
    bench.surgery(spot.path, why).add_member(
        spot.node, Addition(source=source, before=_before(unit, list(there)))
    )
    moved = "" if spot.path == path else f"; the base has this list in {spot.path}"
    return Outcome(
        decision="transplant",
        reason=f"added to {_variable_name(unit)}{moved}",
        base_path=spot.path,
    )


def _kindred_table(bench: Workbench, unit: Unit) -> Spot | None:
    """Find the table of the base's registry for an entry whose own table is newer.

    All tables are united (``_VLLM_MODELS``), so that any will do; the one with most of the donor
    table's other architectures is the natural one.
    """
    tree = bench.base.tree(REGISTRY_PATH)
    wanted = {label for label, _ in members(unit.node)}
    best: tuple[int, ast.Dict] | None = None
    for value in assigned_values(tree).values() if tree is not None else ():
        labels = {label for label, item in members(value) if isinstance(item, ast.Tuple)}
        if isinstance(value, ast.Dict) and labels:
            shared = len(wanted & labels)
            if best is None or shared > best[0]:
                best = (shared, value)
    if tree is None or best is None:
        return None
    return Spot(path=REGISTRY_PATH, tree=tree, node=best[1])


def _present(bench: Workbench, label: str, found: ast.AST, wanted: ast.AST, spot: Spot) -> Outcome:
    same = ast.dump(found) == ast.dump(wanted)
    if not same and bench.owned.of(label) is None:
        return Outcome(
            decision="refuse",
            reason=f"the base has another value for {label} here: {ast.unparse(found)[:60]}",
            base_path=spot.path,
        )
    return Outcome(
        decision="present",
        reason=f"the base has {label} here" + ("" if same else f", as {ast.unparse(found)}"),
        base_path=spot.path,
    )


def _member_source(bench: Workbench, unit: Unit, path: str, label: str, given: ast.AST) -> str:
    assert isinstance(given, ast.expr)
    cutter = bench.excerpter(path)
    replaced: list[tuple[ast.expr, str]] = []
    if path == REGISTRY_PATH and isinstance(given, ast.Tuple):
        replaced.append((given.elts[0], f'"{_registered_module(bench, label)}"'))
    else:
        bench.check_paths(given)
    value = cutter.cut(given, replaced)
    match unit.node:
        case ast.Dict():
            return f'"{label}": {value}'
        case ast.Call() if label.startswith("**"):
            return f"**{value}"
        case ast.Call() if label.isidentifier():
            return f"{label}={value}"
        case ast.Call():
            return f'**{{"{label}": {value}}}'
        case _:
            return value


def _registered_module(bench: Workbench, architecture: str) -> str:
    module = bench.donor_layout.by_architecture[architecture].module
    target = bench.grafted.get(module, module)
    if target not in bench.grafted.values() and path_of(target, bench.base.files) is None:
        message = f"its module {module} is neither grafted nor in the base"
        raise LookupError(message)
    written = written_module(target)
    registry = bench.base.files.read(REGISTRY_PATH)
    if written is None or (written.startswith("vllm.") and not registry_takes_full_paths(registry)):
        message = f"the base's registry cannot name a module outside its own folder: {target}"
        raise LookupError(message)
    return written


def _before(unit: Unit, there: Sequence[str]) -> int:
    """Say before which member of the base the new one goes, by its neighbours in the donor."""
    labels = [label for label, _ in members(unit.node)]
    at = labels.index(unit.label)
    # A renamed operator stands behind the one that the base has under the old name.
    for earlier in (unit.label, *reversed(labels[:at])):
        if earlier in there:
            return there.index(earlier) + 1
    for later in labels[at + 1 :]:
        if later in there:
            return there.index(later)
    return len(there)


def _variable_name(unit: Unit) -> str:
    for node in reversed(unit.ancestors[: unit.at]):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return f"a list in {name}"
            case _:
                pass
    return "a list"
