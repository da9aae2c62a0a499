# What the tier with real vLLM needs before it starts, and what is said where a machine cannot give it.

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The modules beside the tests; the children import nothing of them.
sys.path.insert(0, str(Path(__file__).parent))

import environments

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("vllm")
            if item.get_closest_marker("full") is None:
                item.add_marker("ci")


@pytest.fixture(scope="session", autouse=True)
def vllm_runtime() -> environments.Runtime:
    """The environment with torch; a machine that cannot have it skips, unless all is required."""
    try:
        return environments.runtime()
    except environments.NotRunnableHereError as error:
        if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
            raise
        pytest.skip(f"no real vLLM on this machine: {error}")


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for grafted trees on the file system of the cache, so that binaries can be linked."""
    place = environments.cache_folder() / "grafted"
    place.mkdir(parents=True, exist_ok=True)
    name = f"{tmp_path_factory.mktemp('trees').name}-{os.getpid()}"  # two matrices may run at once
    folder = Path(os.path.realpath(place)) / name
    environments.remove(folder)
    folder.mkdir()
    yield folder
    environments.remove(folder)
