# Single definitions, extracted or derived, go to one module of the graft's own, in the order in which importing
# it needs them.
"""The graft's own module: definitions that the base lacks or has with another contract."""

from collections.abc import Collection, Mapping

from vllm_graft.link.linked import Linked
from vllm_graft.link.local_names import LocalNames
from vllm_graft.link.pieces import Piece, Pieces
from vllm_graft.values.plan import GraftedModule


def emit_family(linked: Linked, donor_version: str) -> GraftedModule | None:
    """Give the graft's own module; None where there is nothing for it."""
    decisions = linked.decisions
    derived = {d.donor.dotted: d for d in decisions.derived.values()}
    own = (*decisions.extracted.values(), *(d.donor for d in derived.values()))
    if not own:
        return None
    names = LocalNames({decisions.name_of(found) for found in own})
    writer = Pieces(linked, names, donor_version)
    pieces = {
        found.dotted: writer.derived(derived[found.dotted])
        if found.dotted in derived
        else writer.extracted(found)
        for found in sorted(own, key=lambda found: found.dotted)
    }
    ordered = _in_import_order(pieces)
    text = (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# SPDX-FileCopyrightText: Copyright contributors to the vLLM project\n"
        f"# Single definitions of vLLM {donor_version} that the grafted model needs and the base lacks,\n"
        "# or has with another contract. Written by vllm-graft; do not edit.\n"
        + "".join(sorted(names.lines, key=_import_key))
        + "".join(
            f"\n\n# {piece.origin}: {piece.why}\n{piece.text.rstrip()}\n" for piece in ordered
        )
    )
    return GraftedModule(
        name=decisions.family,
        path=decisions.family.replace(".", "/") + ".py",
        kind="extracted",
        why="definitions that the base lacks or has with another contract",
        origin=decisions.family.rpartition(".")[2],
        text=text,
        rewrites=tuple(piece.why for piece in ordered),
    )


def _import_key(line: str) -> tuple[int, str]:
    if line.startswith(("import vllm", "from vllm")):
        return 2, line
    return (0 if line.startswith("import") else 1), line


def _in_import_order(pieces: Mapping[str, Piece]) -> list[Piece]:
    """Order pieces so that each stands behind what it needs when it is executed.

    What is executed may call functions, so what those name comes first too, unless that needs
    what is about to be placed.
    """
    executed = {dotted: piece.executed & pieces.keys() for dotted, piece in pieces.items()}
    called = {dotted: piece.called & pieces.keys() for dotted, piece in pieces.items()}
    done: dict[str, Piece] = {}
    open_: set[str] = set()

    def place(dotted: str) -> None:
        if dotted in done or dotted in open_:
            return
        open_.add(dotted)
        needed = executed[dotted]
        for other in sorted(needed):
            place(other)
        for other in sorted(_reached(needed, called) - needed):
            if not open_ & _reached({other}, executed):
                place(other)
        open_.remove(dotted)
        done[dotted] = pieces[dotted]

    for dotted in sorted(pieces):
        place(dotted)
    return list(done.values())


def _reached(start: Collection[str], links: Mapping[str, Collection[str]]) -> set[str]:
    """All that can be reached from some names, they themselves included."""
    found: set[str] = set()
    pending = list(start)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending.extend(links[name])
    return found
