"""What graft.toml says, and on which machines something is to be done."""

from collections.abc import Sequence

from vllm_graft.errors import RequestError
from vllm_graft.run.files import read_bytes
from vllm_graft.values.node import Node, named_twice, parse_machine
from vllm_graft.values.settings import SETTINGS_FILE, Settings
from vllm_graft.values.settings_file import decode_settings


def read_settings(path: str = "") -> Settings:
    """Read settings from a file that the user named; without a name from graft.toml, if that is in this folder.

    Raises:
        RequestError: E213 it cannot be read; E221, E222 it does not say what settings say.
    """
    where = path or SETTINGS_FILE
    try:
        content = read_bytes(where)
    except FileNotFoundError as failure:
        if not path:
            return Settings()
        raise _unreadable(where, failure) from failure
    except OSError as failure:
        raise _unreadable(where, failure) from failure
    return decode_settings(content, where=where)


def nodes_of(settings: Settings, words: Sequence[str] = ()) -> tuple[Node | None, ...]:
    """Give the machines, head first, then the workers by rank; None is this machine.

    ``words`` are those of the command line, the head first; where there are any, the settings' nodes are not asked.
    Where neither names a node, it is this machine alone.

    Raises:
        RequestError: E219 a word names no node; E223 one is named twice.
    """
    if not words:
        return (settings.nodes.head, *settings.nodes.workers)
    machines = tuple(parse_machine(word, word) for word in words)
    if twice := named_twice(machines):
        raise RequestError(
            f"{', '.join(twice)} named twice among the nodes",
            remedy="name each machine once, the head first",
            code="E223",
        )
    return machines


def _unreadable(where: str, failure: OSError) -> RequestError:
    return RequestError(
        f"{where} cannot be read: {failure.strerror}",
        remedy="give the graft.toml that says what you want; docs/settings.md shows a whole one",
        code="E213",
    )
