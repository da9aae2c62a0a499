# Single definitions, extracted or derived, go to one module of the graft's own, in the order in which importing
# it needs them.
"""The graft's own module: definitions that the base lacks or has with another contract."""

from collections.abc import Mapping

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

    What is executed may call, so all that stands behind a name that is needed then is needed then.
    """
    done: dict[str, Piece] = {}
    begun: set[tuple[str, bool]] = set()

    def place(dotted: str, *, called: bool) -> None:
        if dotted in done or (dotted, called) in begun:
            return
        begun.add((dotted, called))
        piece = pieces[dotted]
        for needed in sorted(piece.executed & pieces.keys()):
            place(needed, called=True)
        if called:
            for needed in sorted(piece.called & pieces.keys()):
                place(needed, called=True)
        done.setdefault(dotted, piece)

    for dotted in sorted(pieces):
        place(dotted, called=False)
    return list(done.values())
