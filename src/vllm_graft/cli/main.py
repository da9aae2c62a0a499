# argv → request value → workflow → rendered result → exit status. No decision about grafting is made here, and
# nothing heavy is imported before the words are understood.
"""The command line."""

import os
import sys
import traceback
from collections.abc import Mapping
from typing import TextIO

from vllm_graft.cli.arguments import make_parser
from vllm_graft.errors import GraftError, RequestError

_OURS = 70
_INTERRUPTED = 130
_NARROWEST, _WIDEST = 40, 100
_BROKEN_PIPE = 141
"""What a shell gives for a program that its reader left."""


def run(argv: tuple[str, ...], environment: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Do what ``argv`` asks; gives the exit status."""
    colour = _colour(err, environment)
    try:
        return _run(argv, environment, out, err)
    except SystemExit as left:  # argparse, after --help
        return left.code if isinstance(left.code, int) else 0
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())
        told = "".join(f"\n  note: {note}" for note in notes)
        err.write(f"\ninterrupted{told or '; nothing was left half written'}\n")
        return _INTERRUPTED
    except BrokenPipeError:
        _leave_stdout()
        return _BROKEN_PIPE
    except GraftError as error:
        err.write(render_error(error, colour=colour))
        return error.exit_status
    except Exception as error:  # noqa: BLE001 (the one place where a defect of ours is caught)
        err.write(_defect(error, argv))
        return _OURS


def render_error(error: GraftError, *, colour: bool) -> str:
    """Say what is wrong and what to do; remedies of the causes follow their own."""
    from vllm_graft.report.ink import Ink

    ink = Ink(colour=colour)
    lines = [f"{ink.mark('red', 'error')}[{error.code}]: {error.what}"]
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GraftError):
            lines.append(f"  {ink.mark('bold', 'help')}: {cause.remedy}")
        lines += [f"  note: {note}" for note in getattr(cause, "__notes__", ())]
        cause = cause.__cause__
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _run(argv: tuple[str, ...], environment: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    parser = make_parser()
    words = parser.parse_args(argv)
    if words.version:
        out.write(f"vllm-graft {_version()}\n")
        return 0
    if words.print_completion:
        import shtab

        out.write(shtab.complete(parser, shell=words.print_completion) + "\n")
        return 0
    if words.verb is None:
        out.write(parser.format_help())
        return 0
    from vllm_graft.cli.setting import Setting
    from vllm_graft.cli.verbs import VERBS

    setting = Setting(
        form=getattr(words, "format", "text"),
        quiet=getattr(words, "quiet", False),
        colour=_colour(out, environment),
        width=_width(out, environment),
        variables=environment,
        err=err,
    )
    result, status = VERBS[words.verb](words, setting)
    try:
        out.write(result)
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as failure:
        _leave_stdout()
        raise RequestError(
            f"the result cannot be written to stdout: {failure.strerror}",
            remedy="see where stdout leads; what the verb itself was to write is written",
            code="E213",
        ) from failure
    return status


def _leave_stdout() -> None:
    """Let what Python flushes once more at its end go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    # Source: no-color.org: any value that is not empty; TERM=dumb is a terminal without colours.
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def _width(stream: TextIO, environment: Mapping[str, str]) -> int:
    """Give the width of a terminal; what is piped is the same everywhere."""
    if not stream.isatty():
        return _WIDEST
    told = environment.get("COLUMNS", "")
    try:
        found = int(told) if told.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except OSError:
        found = 0
    return min(max(found, _NARROWEST), _WIDEST) if found else _WIDEST


def _version() -> str:
    from importlib.metadata import version

    return version("vllm-graft")


def _defect(error: Exception, argv: tuple[str, ...]) -> str:
    told = "".join(traceback.format_exception(error))
    python = sys.version.split()[0]
    return (
        f"error[E000]: a defect of vllm-graft: {type(error).__name__}: {error}\n"
        "  help: please report the following, with the two sources that were named\n"
        f"  vllm-graft {_version()}, Python {python}, {sys.platform}\n"
        f"  arguments: {list(argv)}\n{told}"
    )
