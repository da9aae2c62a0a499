# The other direction of a contract: the base's engine calls methods that a model's classes override. Where two
# releases call such a hook in different ways, every import still resolves, and the first request dies.
"""How the code of one install calls a method by name."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vllm_graft.link import contract
from vllm_graft.link.index import Index
from vllm_graft.link.symbols import Member
from vllm_graft.link.syntax import every_node
from vllm_graft.link.uses import Passed, passed_by
from vllm_graft.link.vllm import Room


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCall:
    """One call of ``something.name(…)``."""

    module: str
    line: int
    passed: Passed
    keywords: tuple[str, ...]

    def fits(self, member: Member) -> contract.Mismatch | None:
        """Bind the call to a method; None where it binds."""
        return contract.bind(
            contract.member_parameters(member),
            positional=self.passed.positional,
            keywords=self.keywords,
            has_star=self.passed.has_star,
            has_double_star=self.passed.has_double_star,
        )


class Callers:
    """Finds calls by method name in the engine of one install, each name once."""

    def __init__(self, index: Index, room_of: Callable[[str], Room]) -> None:
        """Look into the engine's modules of ``index``; models call their own hooks in their own way."""
        self._index = index
        self._room_of = room_of
        self._calls: dict[str, tuple[MethodCall, ...]] = {}

    def of(self, name: str) -> tuple[MethodCall, ...]:
        """Give the calls of a method of this name."""
        if name not in self._calls:
            self._calls[name] = tuple(self._find(name))
        return self._calls[name]

    def _find(self, name: str) -> Iterator[MethodCall]:
        for path in self._index.files.containing(f".{name}(".encode()):
            module = self._index.module_at(path)
            if self._room_of(module) != "engine":
                continue
            for node in every_node(self._index.tree(module)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr == name
                ):
                    yield MethodCall(
                        module=module,
                        line=node.lineno,
                        passed=passed_by(node),
                        keywords=tuple(k.arg for k in node.keywords if k.arg is not None),
                    )
