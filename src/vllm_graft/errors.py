# One tree of errors. An error is the inability to go on: it carries a stable code, an exit status and a
# remedy. Bad news about code is not an error but a Finding (values/finding.py).
"""What can stop a verb: each error knows its code, its exit status and what to do about it."""


class GraftError(Exception):
    """Something that stops the verb; never raised itself, only its subclasses."""

    exit_status: int = 70
    code: str = "E000"

    def __init__(self, what: str, *, remedy: str, code: str | None = None) -> None:
        """Say what is wrong (what, where, wanted, found) and what to do about it."""
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        if code is not None:
            self.code = code


class RequestError(GraftError):
    """The user's words: flags, files that the user wrote, an unknown model."""

    exit_status = 2
    code = "E200"


class SourceError(GraftError):
    """A source cannot be read, or holds no vLLM."""

    exit_status = 3
    code = "E300"


class BuildError(GraftError):
    """The overlay could not be made or written; nothing was left half written."""

    exit_status = 4
    code = "E400"


class NodeError(GraftError):
    """A node, or the way to it."""

    exit_status = 5
    code = "E500"


class NodesError(NodeError):
    """Several machines, each for its own reason: all of them are told, so that all can be mended at once."""

    code = "E508"

    def __init__(
        self, failures: tuple[tuple[str, GraftError], ...], *, asked: int, doing: str
    ) -> None:
        """Say for each machine, by its name, what is wrong there and what to do about it."""
        lines = [
            f"\n  {name}: [{error.code}] {error.what}\n    help: {error.remedy}"
            for name, error in failures
        ]
        super().__init__(
            f"{len(failures)} of {asked} machines cannot {doing}:{''.join(lines)}",
            remedy="mend these, and run this again",
        )
        self.failures = failures


class VerificationError(GraftError):
    """It was written or it runs, but it is not what was planned."""

    exit_status = 6
    code = "E600"
