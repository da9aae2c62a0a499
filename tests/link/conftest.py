import os
from pathlib import Path

import pytest

from opening import Opener, opener_at


@pytest.fixture(scope="session")
def shared_opener(tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """For real releases: each is fetched once a session, or once a machine where VLLM_GRAFT_CACHE is set."""
    told = os.environ.get("VLLM_GRAFT_CACHE")
    return opener_at(Path(told) if told else tmp_path_factory.mktemp("releases"))
