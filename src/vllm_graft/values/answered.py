"""What each of several machines answered, or why it did not."""

from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from vllm_graft.errors import GraftError, NodeError, NodesError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[T]):
    """The answer of one machine: its ``value``, where there is no ``error``."""

    name: str
    """Of the machine, as the user calls it."""
    value: T | None = None
    error: GraftError | None = None


def answers(all_of_them: tuple[Answered[T], ...]) -> tuple[tuple[str, T], ...]:
    """Give the names and answers of those that answered, in the order of the machines."""
    return tuple((each.name, cast("T", each.value)) for each in all_of_them if each.error is None)


def all_values(all_of_them: tuple[Answered[T], ...], doing: str) -> tuple[T, ...]:
    """Give what every machine answered, in their order; ``doing`` completes "2 of 4 machines cannot …".

    Raises:
        NodeError: that of the one machine that has no answer; E508, several have none.
    """
    failed = tuple(each for each in all_of_them if each.error is not None)
    if failed:
        raise all_failed(failed, len(all_of_them), doing)
    return tuple(value for _, value in answers(all_of_them))


def all_failed(failed: tuple[Answered[T], ...], number: int, doing: str) -> NodeError:
    """Give one error for those of ``number`` machines that cannot do something."""
    errors = tuple((each.name, each.error) for each in failed if each.error is not None)
    if len(errors) == 1 and isinstance(errors[0][1], NodeError):
        return errors[0][1]
    return NodesError(errors, asked=number, doing=doing)
