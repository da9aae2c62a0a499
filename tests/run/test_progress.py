import io

from vllm_graft.run.console import Console
from vllm_graft.run.progress import Progress


def told(*, total: int, had: int = 0, quiet: bool = False) -> list[str]:
    """Give what is told of 1 GB a second for twenty seconds."""
    now = [100.0]
    stream = io.StringIO()
    progress = Progress(
        console=Console(stream=stream, quiet=quiet),
        about="spark2",
        over="over 192.168.100.11 (enp1s0f1np1)",
        total=total,
        had=had,
        clock=lambda: now[0],
    )
    for tenth in range(1, 201):
        now[0] = 100 + tenth / 10
        progress.at(tenth * 100_000_000)
    return stream.getvalue().splitlines()


def test_a_line_now_and_then_says_how_much_how_fast_how_long_and_over_what() -> None:
    lines = told(total=119_000_000_000)
    assert lines[0] == (
        "spark2: 2.0 GB of 119 GB, 1.0 GB/s over 192.168.100.11 (enp1s0f1np1), 2 min left"
    )
    assert len(lines) == 4


def test_what_was_there_before_counts_as_there_and_not_as_sent() -> None:
    line = told(total=119_000_000_000, had=100_000_000_000)[0]
    assert line.startswith("spark2: 102 GB of 119 GB, 1.0 GB/s over ")
    assert line.endswith(", 17 s left")


def test_where_the_whole_is_not_known_no_end_is_told() -> None:
    assert told(total=0)[0].startswith("spark2: 2.0 GB, 1.0 GB/s over ")


def test_quiet_is_quiet() -> None:
    assert told(total=1, quiet=True) == []
