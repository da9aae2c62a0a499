# Colour and width, as a value that is handed down: a renderer does not know whether it writes to a terminal.
"""Colour, or none; and how wide the page is."""

import re
from dataclasses import dataclass

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "36"}
_MARK = re.compile(r"\033\[\d+m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """Marks text for a terminal if ``colour`` is set, and else leaves it as it is."""

    colour: bool = False
    width: int = 100
    """In characters; lines are broken to fit, except where a single word is longer."""

    def mark(self, style: str, text: str) -> str:
        """Mark the text; ``style`` is one of bold, dim, red, green, yellow, blue."""
        return f"\033[{_CODES[style]}m{text}\033[0m" if self.colour and text else text

    def length(self, text: str) -> int:
        """Count what is seen of a text that may be marked."""
        return len(_MARK.sub("", text))

    def verdict(self, word: str) -> str:
        """Mark a verdict, a severity or an outcome in its colour."""
        styles = {
            "ok": "green",
            "passed": "green",
            "review": "yellow",
            "blocked": "red",
            "failed": "red",
            "note": "blue",
        }
        return self.mark(styles.get(word, "dim"), word)
