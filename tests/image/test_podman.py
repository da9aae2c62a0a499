# podman, where there is no Docker: the same words, its own store, no daemon.
import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

import imaging
from building import STALE, Bench, base_image, base_items
from imaging import Image, Item, folder, python, vllm
from opening import Opener, opener_at
from plans import MODEL, MODEL_TEXT
from vllm_graft.errors import BuildError, SourceError
from vllm_graft.fleet.relay import chained, parse_took
from vllm_graft.image.archive import archive_bytes, image_documents, parse_tag
from vllm_graft.run.machines import machine_at
from vllm_graft.run.process import run_fed
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.workflows.ship_node import look_at, verify

pytestmark = pytest.mark.engine


@dataclass(kw_only=True)
class Podman:
    """A store of the test's own."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        # A PATH with podman and without Docker; what podman itself starts it looks for in fixed places.
        return {
            **os.environ,
            "PATH": str(self.folder / "bin"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
        }

    def run(self, *words: str, stdin: bytes = b"", check: bool = True) -> str:
        done = subprocess.run(
            ["podman", *words], input=stdin, capture_output=True, check=False, env=self.variables
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "replace")

    def load(self, image: Image, name: str) -> str:
        image.name = name
        stream = imaging.layer(imaging.files(".", imaging.docker_files(image)))
        self.run("load", stdin=stream)
        return name

    def opener(self) -> Opener:
        return opener_at(self.folder / "cache", **self.variables)


@pytest.fixture
def podman(tmp_path: Path) -> Generator[Podman]:
    program = shutil.which("podman")
    reason = "" if program else "no podman on this machine"
    reason = reason or ("" if os.getuid() == 0 else "only root may have a store anywhere")
    if reason:
        pytest.skip(reason)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/podman").symlink_to(str(program))
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/root"\nrunroot = "{tmp_path}/run"\n'
    )
    made = Podman(folder=tmp_path)
    done = subprocess.run(
        ["podman", "info"], env=made.variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"podman does not work on this machine: {done.stderr[-300:]}")
    yield made
    assert made.run("ps", "--all", "--quiet") == ""


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_an_image_of_podman_is_read_as_any_other(
    podman: Podman, tmp_path: Path, architecture: str
) -> None:
    image = Image.of(python(), vllm(), architecture=architecture)
    tag = podman.load(image, "localhost/vllm-node:1")
    install = podman.opener().open(f"docker:{tag}")
    same = opener_at(tmp_path / "other").open(
        f"oci:{imaging.write_layout(tmp_path / 'layout', image)}"
    )
    assert install.digest == same.digest
    assert install.native.extensions == same.native.extensions
    assert install.image is not None
    assert install.image.platform == f"linux/{architecture}"


def test_an_image_that_podman_has_not_is_named(podman: Podman) -> None:
    with pytest.raises(SourceError) as caught:
        podman.opener().open("docker:localhost/no-such-image")
    assert caught.value.code == "E333"
    assert "podman pull" in caught.value.remedy


def bench_of(podman: Podman) -> Bench:
    made = Bench(opener=podman.opener(), folder=podman.folder)
    made.path = podman.variables["PATH"]
    return made


@pytest.mark.parametrize("tag", ["localhost/grafted:1", "grafted"])
def test_an_image_is_built_in_podman(podman: Podman, tag: str) -> None:
    base = podman.load(base_image(), "localhost/vllm-node:1")
    bench = bench_of(podman)
    plan = bench.write(bench.plan(f"docker:{base}"))
    receipt = bench.build(plan, tag)
    assert receipt.outcome == "loaded"
    (told,) = json.loads(podman.run("image", "inspect", tag))
    assert told["RootFS"]["Layers"][-1] == str(receipt.layer)
    assert told["Config"]["Entrypoint"] == ["/opt/start.sh", "--now"]
    assert told["Config"]["WorkingDir"] == "/workspace"
    # The very bytes that any other place is given.
    elsewhere = bench.build(plan, tag, to=f"oci:{bench.folder / 'layout'}")
    assert (elsewhere.layer, elsewhere.config, elsewhere.image_id) == (
        receipt.layer,
        receipt.config,
        receipt.image_id,
    )
    assert told["Id"] == receipt.image_id.hex
    mounted = Path(podman.run("image", "mount", tag).strip())
    try:
        site = mounted / imaging.SITE
        assert (site / MODEL).read_text() == MODEL_TEXT
        assert not (mounted / STALE).exists()
        above = site.stat()
        assert (above.st_mode & 0o7777, above.st_uid, above.st_gid) == (0o2775, 1000, 1001)
    finally:
        podman.run("image", "unmount", tag)
    assert bench.build(plan, tag).outcome == "already there"
    grafted = podman.opener().open(f"docker:{tag}")
    assert [each.name for each in grafted.distributions] == ["vllm", "vllm-graft-overlay"]


def test_another_image_of_this_name_is_kept(podman: Podman) -> None:
    base = podman.load(base_image(), "localhost/vllm-node:1")
    podman.load(Image.of([folder("other")]), "localhost/grafted:1")
    bench = bench_of(podman)
    plan = bench.write(bench.plan(f"docker:{base}"))
    with pytest.raises(BuildError) as caught:
        bench.build(plan, "localhost/grafted:1")
    assert caught.value.code == "E422"
    receipt = bench.build(plan, "localhost/grafted:1", force=True)
    assert podman.run("image", "inspect", "--format", "{{.Id}}", receipt.replaced)


def test_a_base_that_podman_has_not_is_told_and_nothing_is_named(
    podman: Podman, tmp_path: Path
) -> None:
    image = Image.of([Item(path="only/here")], base_items())
    bench = bench_of(podman)
    source = f"oci:{imaging.write_layout(tmp_path / 'base', image)}"
    with pytest.raises(BuildError) as caught:
        bench.build(bench.plan(source), "localhost/grafted:1")
    assert caught.value.code == "E421"
    assert podman.run("image", "ls", "--quiet") == ""


@pytest.mark.parametrize("packed", [gzip.compress, bytes], ids=["compressed", "as it is"])
def test_a_stream_is_taken_in_by_podman_compressed_or_not(
    podman: Podman, packed: Callable[[bytes], bytes]
) -> None:
    """Of an archive in both forms podman itself takes none that is compressed."""
    for name in ("cat", "gzip", "id", "sed", "sh", "sort", "stat", "tr", "uname"):
        (podman.folder / "bin" / name).symlink_to(str(shutil.which(name)))
    image = Image.of(python(), vllm())
    name, content = parse_tag("localhost/vllm-node:1"), image.layers[0]
    facts = ImageFacts(
        reference=str(name),
        architecture="amd64",
        system="linux",
        variant="",
        settings={"Cmd": ["/bin/sh"]},
        layers=(Digest.of(content),),
    )
    archive = archive_bytes(image_documents(facts, content, name))
    with machine_at(None, podman.variables) as machine:
        state = look_at(machine, facts)
        assert (state.engine.name, state.unpacks, state.named) == ("podman", True, False)
        assert state.space is not None
        take = chained([state.link(name)])
        answer = run_fed(take, [packed(archive)], variables=podman.variables)
        (took,) = parse_took(answer, [state.link(name)])
        assert took.answer.passed, took.answer.stderr
        verify(state, facts)
