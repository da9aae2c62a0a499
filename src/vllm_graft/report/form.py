"""The forms that a result can take on stdout."""

from typing import Literal

Form = Literal["text", "json", "markdown"]
