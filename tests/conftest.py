"""What holds for every test."""

import pytest
from hypothesis import settings

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        shares_engine = "docker" in getattr(item, "fixturenames", ())
        # Tests of one file share what they have made; those of the one engine look at all that it has.
        item.add_marker(pytest.mark.xdist_group("engine" if shares_engine else str(item.path)))
        if shares_engine:
            item.add_marker("engine")
        if item.get_closest_marker("full") or item.get_closest_marker("vllm"):
            # The first of them may have to make an environment with torch and vLLM.
            item.add_marker(pytest.mark.timeout(3600))
