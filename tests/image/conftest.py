from pathlib import Path

import pytest

from opening import Opener, opener_at


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return opener_at(tmp_path / "cache")
