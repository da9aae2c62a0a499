# Colour for a terminal, as a value that is handed down: a renderer does not know whether it writes to one.
"""Colour, or none."""

from dataclasses import dataclass

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "36"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """Marks text for a terminal if ``colour`` is set, and else leaves it as it is."""

    colour: bool = False

    def mark(self, style: str, text: str) -> str:
        """Mark the text; ``style`` is one of bold, dim, red, green, yellow, blue."""
        return f"\033[{_CODES[style]}m{text}\033[0m" if self.colour and text else text

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
