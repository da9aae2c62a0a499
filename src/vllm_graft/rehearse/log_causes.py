# A log is read in pieces of some size and never held as a whole. Most pieces hold none of the words that any signature
# wants: those are only counted. What is kept is one event a kind, and for each process the traceback that it is in.
#
# The first cause is the first line of a kind that causes; what a signature calls a consequence never is. An exception
# that nothing is known of is kept too, unless the same process goes on, in its message or in what Python chains to it,
# to say a known cause: then it led there.
"""Finding out from a log why something failed."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vllm_graft.rehearse.log_line import LogLine, read_line, unwrapped, without_colours
from vllm_graft.rehearse.signatures import Match, Signature, match_line
from vllm_graft.values.log import LineKind, LogDiagnosis, LogEvent

_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("another exception occurred:", "direct cause of the following exception:")
"""Between two tracebacks of which the first led to the second. Source: CPython Lib/traceback.py."""
_FRAME_LIMIT = 2000
"""Lines after which a traceback that never ends is given up."""
_NEAR = 400
"""Lines of a process within which an unknown exception is taken for one that led to a known cause."""
_LONGEST = 400
_MOST_UNEXPLAINED = 16
_MOST_RANKS = 32
_MOST_PROCESSES = 4096
_LOUD = ("ERROR", "CRITICAL")
# A class name, dotted or not, as Python ends a traceback with it; `Exception` and what ends as exceptions are named.
_EXCEPTION = re.compile(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Fault)|Exception)(?::|$)"
)
_LEAVING = frozenset({"KeyboardInterrupt", "CancelledError", "SystemExit", "GeneratorExit"})
"""How a process ends that was told to."""


def diagnose_log(name: str, pieces: Iterable[str], signatures: Sequence[Signature]) -> LogDiagnosis:
    """Read a log; each piece ends with a whole line, except the last."""
    reader = _Reader(signatures=signatures)
    for piece in pieces:
        reader.read(piece)
    return reader.diagnosis(name)


@dataclass(slots=True)
class _Seen:
    kind: LineKind
    match: Match | None
    line: int
    said: LogLine
    count: int = 0
    ranks: dict[str, None] = field(default_factory=dict[str, None])

    def again(self, who: str) -> None:
        self.count += 1
        if len(self.ranks) < _MOST_RANKS:
            self.ranks[who] = None


@dataclass(slots=True)
class _Process:
    """Where a process is in what it says."""

    tracing: int = 0
    """Lines that its traceback may still have; 0 outside of one."""
    passed: set[str] = field(default_factory=set[str])
    """Signatures whose ``after`` its last traceback holds."""
    lines: int = 0
    led: dict[str, int] = field(default_factory=dict[str, int])
    """Its unknown exceptions that may yet lead to a known cause, by when they were said."""
    chained: bool = False
    """Whether Python said that the next traceback follows from the last."""


@dataclass(slots=True)
class _Reader:
    signatures: Sequence[Signature]
    ended: int = 0
    """Lines that have ended, with a line feed."""
    unended: bool = False
    """Whether more was said since."""
    line: int = 0
    """Of what is looked at."""
    tracing: bool = False
    """Whether any process is in a traceback."""
    events: dict[str, _Seen] = field(default_factory=dict[str, _Seen])
    processes: dict[str, _Process] = field(default_factory=dict[str, _Process])

    def read(self, piece: str) -> None:
        piece = without_colours(piece)
        self.tracing = any(process.tracing for process in self.processes.values())
        candidates = [each for each in self.signatures if any(word in piece for word in each.words)]
        if candidates or self.tracing or _may_fail(piece):
            for number, line in enumerate(piece.split("\n"), start=self.ended + 1):
                self.line = number
                # A progress bar, and vLLM's own line ends within one message.
                for part in line.split("\r"):
                    self._look(unwrapped(part), candidates)
        self.ended += piece.count("\n")
        self.unended = piece != "" and not piece.endswith("\n")

    def _look(self, line: str, candidates: Sequence[Signature]) -> None:
        matched = [found for each in candidates if (found := match_line(each, line)) is not None]
        if not (matched or self.tracing or _may_fail(line)):
            return
        said = read_line(line)
        process = self._process(said.who)
        process.lines += 1
        self._trace(process, said)
        known = [
            each
            for each in matched
            if each.signature.after is None or each.signature.name in process.passed
        ]
        for match in known:
            self._keep(match.signature.name, match.signature.kind, match, said)
            if match.signature.kind == "cause":
                self._explain(process)
        if not known and _is_exception(said, process):
            self._keep_unexplained(process, said)
        if process.tracing and _is_outside(said):
            process.tracing = 0

    def _trace(self, process: _Process, said: LogLine) -> None:
        """Follow a traceback by one line."""
        if _TRACEBACK in said.text:
            process.tracing, process.passed = _FRAME_LIMIT, set()
            self.tracing = True
            if not process.chained:
                process.led.clear()
            process.chained = False
        elif any(word in said.text for word in _CHAINED):
            process.chained = True
        elif process.tracing:
            process.tracing -= 1
            process.passed |= {
                each.name
                for each in self.signatures
                if each.after is not None and each.after.search(said.text)
            }

    def _process(self, who: str) -> _Process:
        if who not in self.processes and len(self.processes) >= _MOST_PROCESSES:
            who = ""
        return self.processes.setdefault(who, _Process())

    def _keep(self, key: str, kind: LineKind, match: Match | None, said: LogLine) -> None:
        seen = self.events.get(key)
        if seen is None:
            seen = self.events[key] = _Seen(kind, match, self.line, said)
        seen.again(said.who)

    def _keep_unexplained(self, process: _Process, said: LogLine) -> None:
        key = f"! {said.text[:_LONGEST]}"
        if key not in self.events:
            if (
                sum(seen.kind == "unexplained" for seen in self.events.values())
                >= _MOST_UNEXPLAINED
            ):
                return
            process.led[key] = process.lines
        self._keep(key, "unexplained", None, said)

    def _explain(self, process: _Process) -> None:
        """Forget the unknown exceptions of a process that have led to what it says now."""
        for key, when in process.led.items():
            if process.lines - when <= _NEAR:
                self.events.pop(key, None)
        process.led.clear()

    def diagnosis(self, name: str) -> LogDiagnosis:
        def of(kind: LineKind) -> tuple[LogEvent, ...]:
            return tuple(
                _event(key, seen) for key, seen in self.events.items() if seen.kind == kind
            )

        causes = of("cause")
        return LogDiagnosis(
            log=name,
            lines=self.ended + self.unended,
            first=causes[0] if causes else None,
            causes=causes,
            unexplained=of("unexplained"),
            consequences=of("consequence"),
            notices=of("notice"),
        )


def _may_fail(text: str) -> bool:
    return any(word in text for word in (_TRACEBACK, *_LOUD, *_CHAINED))


def _is_exception(said: LogLine, process: _Process) -> bool:
    """Tell the last line of a traceback: an exception where one was begun, or in an error of vLLM's own log.

    Lines of several processes at once may lose their prefix, so that a traceback seems never to have begun.
    """
    if said.level and said.level not in _LOUD:
        return False
    if not process.tracing and said.level not in _LOUD:
        return False
    found = _EXCEPTION.match(said.text)
    return found is not None and found["name"].rpartition(".")[2] not in _LEAVING


def _is_outside(said: LogLine) -> bool:
    return bool(said.text) and not said.text[0].isspace() and _TRACEBACK not in said.text


def _event(key: str, seen: _Seen) -> LogEvent:
    match = seen.match
    return LogEvent(
        kind=seen.kind,
        signature="" if match is None else key,
        line=seen.line,
        who=seen.said.who,
        text=seen.said.text.strip()[:_LONGEST],
        count=seen.count,
        ranks=tuple(seen.ranks),
        cause="" if match is None else match.cause,
        remedy="" if match is None else match.remedy,
        source="" if match is None else match.signature.source,
    )
