# A newer engine hands a hook one record where an older one passes its fields: ``hook(params)`` for ``hook(audio=…, language=…)``.
# The donor's override then takes both: what the base's engine passes is gathered into the donor's record.
"""Overrides that take a record, called with its fields."""

import ast
from collections.abc import Iterator

from vllm_graft.link import contract
from vllm_graft.link.callers import MethodCall
from vllm_graft.link.constructors import constructor_parameters
from vllm_graft.link.index import Found
from vllm_graft.link.linked import Linked, Rewrite
from vllm_graft.link.plain import is_plain
from vllm_graft.link.symbols import FunctionNode, Member
from vllm_graft.link.uses import Span, span_of

_PASSED = "passed_by_name"


class Gathering:
    """Rewrites overrides for one round."""

    def __init__(self, linked: Linked) -> None:
        """Repair for one round."""
        self._linked = linked
        self._decisions = linked.decisions
        self._pair = linked.decisions.pair

    def gather(self, child: Found, boundary: Found, method: str) -> bool:
        """Let an override take the fields of its record by name; False where that is not all that differs.

        Every call of the base's engine has to pass nothing but fields, by name, and all that have no default.
        """
        function = child.definition.members[method].function
        taken = None if function is None else _only_parameter(function)
        counterpart = self._decisions.counterpart(boundary)
        theirs = None if counterpart is None else self._pair.base.member(counterpart, method)
        if function is None or taken is None or theirs is None:
            return False
        record = self._record(child.module, taken)
        if record is None or not all(
            _passes_fields(constructor_parameters(self._pair.donor, record) or (), call)
            for call in self._calls(method, theirs[1])
        ):
            return False
        self._decisions.use_as_value(record)
        self._linked.rewrites.extend(_rewrites(child.module, function, taken, record.name))
        return True

    def _calls(self, method: str, theirs: Member) -> Iterator[MethodCall]:
        for call in self._pair.base_callers.of(method):
            if call.fits(theirs) is None:
                yield call

    def _record(self, module: str, parameter: ast.arg) -> Found | None:
        """The donor's record that a parameter is annotated with, which the graft can make."""
        annotation, summary = parameter.annotation, self._pair.donor.summary(module)
        if not isinstance(annotation, ast.Name) or summary is None:
            return None
        found = self._pair.donor.resolve(module, annotation.id)
        if found is None or annotation.id in summary.only_types:
            return None
        is_made = self._decisions.of(found).kind in {"extracted", "grafted"}
        return found if is_made and is_plain(self._pair.donor, found) else None


def _only_parameter(function: FunctionNode) -> ast.arg | None:
    """The one parameter of a method beside ``self`` or ``cls``; None where it has more, or none."""
    arguments = function.args
    if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return None
    has_two = len(arguments.args) == 2 and not arguments.defaults  # noqa: PLR2004  (cls, and it)
    is_written_in_lines = function.body[0].lineno > function.lineno
    return arguments.args[1] if has_two and is_written_in_lines else None


def _passes_fields(fields: tuple[contract.Parameter, ...], call: MethodCall) -> bool:
    passed = call.passed
    return not (passed.positional or passed.has_star or passed.has_double_star) and (
        {f.name for f in fields if f.default is None}
        <= {*call.keywords}
        <= {f.name for f in fields}
    )


def _rewrites(
    module: str, function: FunctionNode, taken: ast.arg, record: str
) -> Iterator[Rewrite]:
    assert isinstance(taken.annotation, ast.Name)
    end, first = span_of(taken.annotation), span_of(function.body[0])
    note = f"line {function.lineno}: {function.name} takes the fields of its {record} by name too"
    indent = " " * first.column
    yield Rewrite(
        module=module,
        span=Span(end.end_line, end.end_column, end.end_line, end.end_column),
        text=f" = None, **{_PASSED}",
        note=note,
    )
    yield Rewrite(
        module=module,
        span=Span(first.line, first.column, first.line, first.column),
        text=f"if {taken.arg} is None:\n{indent}    {taken.arg} = {taken.annotation.id}(**{_PASSED})\n"
        f"{indent}",
        note=note,
    )
