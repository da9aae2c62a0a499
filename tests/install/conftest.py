import os
from pathlib import Path

import pytest

from opening import Opener, opener_at


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    return opener_at(tmp_path / "cache")


@pytest.fixture
def offline(tmp_path: Path) -> Opener:
    """Where pip may look in one folder and nowhere else."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    return opener_at(
        tmp_path / "cache",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(shelf),
        PIP_CONFIG_FILE=os.devnull,
    )


@pytest.fixture(scope="session")
def shared_opener(tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """For real releases: each is fetched once a session, or once a machine where VLLM_GRAFT_CACHE is set."""
    told = os.environ.get("VLLM_GRAFT_CACHE")
    return opener_at(Path(told) if told else tmp_path_factory.mktemp("releases"))
