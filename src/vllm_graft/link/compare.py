# When are two definitions the same? For engine code: the same syntax tree. For model code: the same tree and,
# through every model-room name that it uses, the same all the way down, because the numbers that a model
# computes come from there. Docstrings and annotations of parameters do not compute anything and are left out;
# annotations in class bodies stay (dataclass fields).
"""Equality of definitions across two installs."""

import ast
from collections.abc import Callable
from typing import cast

from vllm_graft.link.index import Found, Index, is_inside

_SIGNATURES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.arg)
_SKIPPED_ALWAYS = {"type_comment", "ctx", "kind"}
_SKIPPED = _SKIPPED_ALWAYS | {"annotation", "returns"}


def same_shape(ours: object, theirs: object) -> bool:
    """Tell whether two nodes compute the same: positions, docstrings, parameter annotations apart."""
    # Most pairs that come here differ, and near their beginning: so no rendering of both.
    if isinstance(ours, ast.AST):
        if type(ours) is not type(theirs):
            return False
        skipped = _SKIPPED if isinstance(ours, _SIGNATURES) else _SKIPPED_ALWAYS
        return all(
            same_shape(getattr(ours, name, None), getattr(theirs, name, None))
            for name in ours._fields
            if name not in skipped
        )
    if isinstance(ours, list):
        if not isinstance(theirs, list):
            return False
        mine = [item for item in cast("list[object]", ours) if not _is_docstring(item)]
        other = [item for item in cast("list[object]", theirs) if not _is_docstring(item)]
        return len(mine) == len(other) and all(map(same_shape, mine, other))
    # By their text, as 0.0 and -0.0 are equal and nan is not.
    return type(ours) is type(theirs) and repr(ours) == repr(theirs)


def _is_docstring(node: object) -> bool:
    """Tell whether a statement is a bare string, which computes nothing wherever it stands."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class Comparison:
    """Memoised equality between definitions of a donor and a base."""

    def __init__(self, donor: Index, base: Index, is_model_room: Callable[[str], bool]) -> None:
        """Compare two installs; ``is_model_room`` tells where equality must go all the way down."""
        self._donor = donor
        self._base = base
        self._is_model_room = is_model_room
        self._shallow: dict[tuple[str, str], bool] = {}
        self._deep: dict[tuple[str, str], bool] = {}

    def same(self, donor: Found, base: Found) -> bool:
        """Tell whether the two definitions have the same syntax tree."""
        if donor.definition.kind != base.definition.kind:
            return False
        if donor.definition.kind == "submodule":
            return True
        if donor.definition.kind == "import":
            return (donor.definition.target_module, donor.definition.target_name) == (
                base.definition.target_module,
                base.definition.target_name,
            )
        key = (donor.dotted, base.dotted)
        if key not in self._shallow:
            self._shallow[key] = self._equal(donor, base)
        return self._shallow[key]

    def _equal(self, donor: Found, base: Found) -> bool:
        if not same_shape([*donor.definition.others], [*base.definition.others]):
            return False
        if self._text(self._donor, donor) == self._text(self._base, base):
            return True
        ours, theirs = donor.definition.node, base.definition.node
        return ours is not None and theirs is not None and same_shape(ours, theirs)

    @staticmethod
    def _text(index: Index, found: Found) -> bytes:
        lines = index.source(found.module).split(b"\n")
        return b"\n".join(lines[found.definition.line - 1 : found.definition.end_line])

    def same_all_the_way(self, donor: Found, base: Found) -> bool:
        """Tell whether the two are the same, and every model-room definition that they use too."""
        return not self.differences(donor, base)

    def differences(self, donor: Found, base: Found) -> tuple[str, ...]:
        """Dotted donor names whose definitions differ, among ``donor`` and what it uses in model rooms."""
        seen: set[str] = set()
        different: list[str] = []
        self._descend(donor, base, seen, different)
        return tuple(different)

    def _descend(self, donor: Found, base: Found, seen: set[str], different: list[str]) -> None:
        if donor.dotted in seen:
            return
        seen.add(donor.dotted)
        if not self.same(donor, base):
            different.append(donor.dotted)
            return
        if donor.definition.kind in {"import", "submodule"}:
            return
        used = [
            (self._donor.resolve(donor.module, name), self._base.resolve(base.module, name))
            for name in sorted(donor.definition.names)
        ]
        used.append((self._donor.shadowed(donor), self._base.shadowed(base)))
        for inner, counterpart in used:
            if inner is None or not is_inside(inner.module):
                continue
            if inner.module != donor.module and not self._is_model_room(inner.module):
                continue
            if counterpart is None:
                different.append(inner.dotted)
            else:
                self._descend(inner, counterpart, seen, different)
