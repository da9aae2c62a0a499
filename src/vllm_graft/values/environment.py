"""What the program takes from its surroundings, read once in the cli and passed down."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Variables, home and interpreter of the user who started the program."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """All of them: child processes get these and no others. Never printed: they may hold secrets."""
    home: str = ""
    """Home directory; empty where there is none."""
    python: str = ""
    """The interpreter that runs this program (``sys.executable``)."""

    @property
    def cache_directory(self) -> str:
        """Where fetched installs are kept; empty where neither a variable nor a home tells.

        Source: XDG Base Directory Specification 0.8: a relative ``XDG_CACHE_HOME`` is ignored.
        """
        if chosen := self.variables.get("VLLM_GRAFT_CACHE"):
            return chosen
        shared = self.variables.get("XDG_CACHE_HOME", "")
        if shared.startswith("/"):
            return f"{shared}/vllm-graft"
        return f"{self.home}/.cache/vllm-graft" if self.home else ""
