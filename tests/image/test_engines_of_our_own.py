# Engines that a test may fill up and kill: what a build leaves behind then, and that two engines agree.
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from building import Bench, base_image
from engines import OwnDocker, own_docker
from opening import Opener, opener_at
from plans import PlanParts, module
from vllm_graft.errors import BuildError, SourceError
from vllm_graft.values.codec import encode_plan


@pytest.fixture
def bench(opener: Opener, tmp_path: Path) -> Bench:
    return Bench(opener=opener, folder=tmp_path)


@pytest.mark.engine
def test_two_engines_get_the_same_image(tmp_path: Path) -> None:
    found: list[object] = []
    for number in (1, 2):
        with own_docker(tmp_path / f"engine-{number}") as engine:
            image = base_image()
            tag = engine.load(image)
            engine.run("tag", tag, "vllm-node")
            opener = opener_at(tmp_path / f"cache-{number}", DOCKER_HOST=engine.host)
            (tmp_path / f"{number}").mkdir()
            bench = Bench(opener=opener, folder=tmp_path / f"{number}")
            receipt = bench.build(bench.plan("docker:vllm-node"), "grafted")
            assert receipt.outcome == "loaded"
            shown = engine.run(
                "image", "inspect", "--format", "{{.Id}} {{json .RootFS}}", "grafted"
            )
            found.append((receipt, shown))
    assert found[0] == found[1]


def large_plan(bench: Bench) -> Path:
    """A plan whose layer takes a while to load: 25 MB, and as much once more in the plan, that do not compress."""
    text = "".join(f"# {os.urandom(32).hex()}\n" for _ in range(30_000))
    modules = tuple(
        module(f"vllm/model_executor/models/large{number}.py", text) for number in range(12)
    )
    plan = bench.plan("docker:vllm-node")
    place = bench.folder / "large.json"
    place.write_bytes(encode_plan(replace(plan, modules=(*PlanParts().modules, *modules))))
    return place


@pytest.mark.engine
def test_a_full_disk_leaves_the_engine_as_it_was(bench: Bench, tmp_path: Path) -> None:
    with own_docker(tmp_path / "engine", size="20m") as engine:
        engine.run("tag", engine.load(base_image()), "vllm-node")
        bench.opener = opener_at(tmp_path / "cache", DOCKER_HOST=engine.host)
        images = _images(engine)
        with pytest.raises(BuildError) as caught:
            bench.build(large_plan(bench), "grafted")
        assert caught.value.code == "E421"
        assert "no space left on device" in caught.value.what
        assert "disk space" in caught.value.remedy
        assert _images(engine) == images
        assert engine.run("ps", "--all", "--quiet") == ""
        assert bench.build(bench.plan("docker:vllm-node"), "grafted").outcome == "loaded"


@pytest.mark.engine
def test_an_engine_that_is_killed_half_way_is_told_and_can_be_used_again(
    bench: Bench, tmp_path: Path
) -> None:
    with own_docker(tmp_path / "engine") as engine:
        engine.run("tag", engine.load(base_image()), "vllm-node")
        bench.opener = opener_at(tmp_path / "cache", DOCKER_HOST=engine.host)
        plan = large_plan(bench)
        with subprocess.Popen(
            [sys.executable, "-m", "vllm_graft", "build", plan, "-t", "grafted"],
            env={**engine.variables, "VLLM_GRAFT_CACHE": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            wait_for_load(child.pid)
            engine.kill()
            _, told = child.communicate(timeout=120)
        assert child.returncode in (3, 4), told
        assert "Traceback" not in told
        with pytest.raises(SourceError) as caught:
            bench.build(plan, "grafted")
        assert caught.value.code == "E331"
    with own_docker(tmp_path / "again") as engine:
        engine.run("tag", engine.load(base_image()), "vllm-node")
        bench.opener = opener_at(tmp_path / "cache", DOCKER_HOST=engine.host)
        assert bench.build(plan, "grafted").outcome == "loaded"


HEARING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from vllm_graft.__main__ import main
sys.exit(main())
"""


def _images(engine: OwnDocker) -> list[str]:
    """Give what the engine has; it lists images of one age in any order."""
    wanted = "{{.Repository}}:{{.Tag}} {{.ID}}"
    return sorted(engine.run("image", "ls", "--all", "--format", wanted).splitlines())


@pytest.mark.engine
def test_ctrl_c_while_loading_leaves_no_image(bench: Bench, tmp_path: Path) -> None:
    with own_docker(tmp_path / "engine") as engine:
        engine.run("tag", engine.load(base_image()), "vllm-node")
        bench.opener = opener_at(tmp_path / "cache", DOCKER_HOST=engine.host)
        images = _images(engine)
        with subprocess.Popen(
            [sys.executable, "-c", HEARING, "build", large_plan(bench), "-t", "grafted"],
            env={**engine.variables, "VLLM_GRAFT_CACHE": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            wait_for_load(child.pid)
            child.send_signal(signal.SIGINT)
            _, told = child.communicate(timeout=120)
        assert child.returncode == 130, told
        assert _images(engine) == images
        assert engine.run("ps", "--all", "--quiet") == ""


def wait_for_load(parent: int) -> None:
    """Wait until this process has a child that loads an image."""
    for _ in range(6000):
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = place.read_bytes().split(b"\0")
                status = (place.parent / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if b"load" in words[1:2] and int(status[1]) == parent:
                time.sleep(0.1)
                return
        time.sleep(0.01)
    pytest.fail("it never came to loading")
