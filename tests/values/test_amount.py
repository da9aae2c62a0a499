import pytest

from vllm_graft.values.amount import a_few, duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (40, "40 s"),
        (99, "99 s"),
        (119, "2 min"),
        (5000, "83 min"),
        (7800, "2 h 10 min"),
    ],
)
def test_times_are_said_as_exactly_as_they_are_known(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_of_many_names_a_few_are_said() -> None:
    assert a_few(["a", "b"]) == "a, b"
    assert a_few(["a", "b", "c"], most=2) == "a, b and 1 more"
