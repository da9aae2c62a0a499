"""What holds for every test."""

import pytest
from hypothesis import settings

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "docker" in getattr(item, "fixturenames", ()):
            item.add_marker("engine")
        if item.get_closest_marker("full") or item.get_closest_marker("vllm"):
            # The first of them may have to make an environment with torch and vLLM.
            item.add_marker(pytest.mark.timeout(3600))
