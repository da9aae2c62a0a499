"""A content digest: never a bare string."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

_FORM = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, order=True)
class Digest:
    """A sha256 of bytes; prints and parses as ``sha256:`` and 64 hexadecimal digits."""

    hex: str

    @classmethod
    def of(cls, content: bytes) -> Self:
        """Digest the bytes themselves."""
        return cls(hashlib.sha256(content).hexdigest())

    @classmethod
    def of_parts(cls, parts: Iterable[tuple[str, bytes]]) -> Self:
        """Digest named parts.

        Order: as given; names and contents are length-prefixed, so no two part lists collide.
        """
        running = hashlib.sha256()
        for name, content in parts:
            running.update(f"{len(name.encode())}:{len(content)}:".encode())
            running.update(name.encode())
            running.update(content)
        return cls(running.hexdigest())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the printed form.

        Raises:
            ValueError: the text is not ``sha256:`` and 64 lower-case hexadecimal digits.
        """
        if _FORM.fullmatch(text) is None:
            message = f"not a digest: {text!r} (wanted: sha256: and 64 hexadecimal digits)"
            raise ValueError(message)
        return cls(text.removeprefix("sha256:"))

    def __str__(self) -> str:
        """Give the printed form."""
        return f"sha256:{self.hex}"
