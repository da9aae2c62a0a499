"""The story on stderr; results go to stdout and are none of this file's business."""

import sys
from dataclasses import dataclass, field
from typing import TextIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Where the program tells what it does."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False

    def tell(self, text: str) -> None:
        """Say one line."""
        if not self.quiet:
            print(text, file=self.stream, flush=True)
