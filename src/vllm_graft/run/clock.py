"""What time it is."""

from datetime import UTC, datetime


def stamp() -> str:
    """Give the time of day as a part of a name: ``20261130t1131z``."""
    return datetime.now(tz=UTC).strftime("%Y%m%dt%H%M%Sz")
