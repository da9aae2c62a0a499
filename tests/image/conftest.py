from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import Docker, docker_or_skip
from opening import Opener, opener_at


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return opener_at(tmp_path / "cache")


@pytest.fixture
def docker() -> Iterator[Docker]:
    engine = docker_or_skip()
    yield engine
    engine.clean()
    assert not engine.containers(), "a container was left behind"
