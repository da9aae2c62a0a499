# Images of another machine's engine, read and built over SSH. The machine is this one, reached through a real sshd; the
# engine is one that only commands of that sshd find.
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

import imaging
from building import Bench, base_image
from engines import OwnDocker, own_docker
from imaging import SITE, Image, Item, python, vllm
from nodes import SHELLS, Nodes, nodes
from opening import Opener, opener_at
from vllm_graft.errors import BuildError, NodeError, SourceError
from vllm_graft.fleet.engine import unusable_there
from vllm_graft.image.engine import Engine
from vllm_graft.run.engine import engine_at
from vllm_graft.run.engine_socket import engine_socket
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.command import Completed
from vllm_graft.values.node import Node

pytestmark = pytest.mark.engine


@dataclass(kw_only=True)
class Away:
    """Nodes with an engine."""

    nodes: Nodes
    engine: OwnDocker

    def opener(self, folder: Path) -> Opener:
        """An opener that finds no engine on this machine."""
        return opener_at(folder, PATH=f"{self.nodes.folder}/bin:/nothing")


@pytest.fixture(scope="module")
def away() -> Generator[Away]:
    with tempfile.TemporaryDirectory(prefix="vllm-graft-away-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with own_docker(folder / "engine") as engine:
            socket = engine.host.removeprefix("unix://")
            Path(socket).chmod(0o666)
            with nodes(environment={"DOCKER_HOST": engine.host}) as made:
                yield Away(nodes=made, engine=engine)


@pytest.fixture
def opener(away: Away, tmp_path: Path) -> Generator[Opener]:
    yield away.opener(tmp_path / "cache")
    assert away.engine.run("ps", "--all", "--quiet") == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_an_image_of_a_node_is_read_through_every_login_shell(
    away: Away, opener: Opener, tmp_path: Path, shell: str
) -> None:
    if shell not in away.nodes.users:
        pytest.skip(f"no {shell} on this machine")
    image = Image.of(python(), vllm())
    tag = away.engine.load(image)
    install = opener.open(f"docker:{tag}@node-{shell}")
    same = opener_at(tmp_path / "other").open(
        f"oci:{imaging.write_layout(tmp_path / 'layout', image)}"
    )
    assert install.digest == same.digest
    assert install.source == f"docker:{tag}@node-{shell}"
    assert install.native.extensions == same.native.extensions


def test_files_are_read_through_the_socket_of_the_node_where_sshd_allows_that(away: Away) -> None:
    variables = away.nodes.variables
    with engine_at(Node(name="node-fish"), variables) as engine:
        found = engine_socket(engine, tuple(sorted(variables.items())))
        assert found is not None
        place = Path(found.path)
        assert place.is_socket()
    assert not place.parent.exists()


def test_where_sshd_forbids_that_the_client_reads(away: Away, tmp_path: Path) -> None:
    image = Image.of(python(), vllm())
    tag = away.engine.load(image)
    more = {"DOCKER_HOST": away.engine.host}
    with nodes(environment=more, settings="AllowStreamLocalForwarding no\n") as made:
        variables = {"PATH": f"{made.folder}/bin:/nothing"}
        install = opener_at(tmp_path).open(f"docker:{tag}@node-bash", variables=variables)
    assert install.version == "0.17.1"
    assert away.engine.run("ps", "--all", "--quiet") == ""


def built(away: Away, opener: Opener, folder: Path, **more: str) -> tuple[Bench, BuildReceipt, str]:
    bench = Bench(opener=opener, folder=folder)
    bench.path = opener.variables["PATH"]
    base = away.engine.load(base_image())
    tag = away.engine.name()
    return bench, bench.build(bench.plan(f"docker:{base}@node-zsh"), tag, **more), tag


def test_an_image_is_built_where_its_base_is(away: Away, opener: Opener, tmp_path: Path) -> None:
    bench, receipt, tag = built(away, opener, tmp_path)
    assert (receipt.outcome, receipt.target) == ("loaded", f"{tag}@node-zsh")
    layers = away.engine.run("image", "inspect", "--format", "{{json .RootFS.Layers}}", tag)
    assert str(receipt.layer) in layers
    # From elsewhere, under another name of the same machine: it is there already.
    again = bench.build(
        bench.folder / "plan-1.json", tag, base=receipt_base(receipt), to="docker@node-fish"
    )
    assert (again.outcome, again.target) == ("already there", f"{tag}@node-fish")
    grafted = opener.open(f"docker:{tag}@node-tcsh")
    assert [each.name for each in grafted.distributions] == ["vllm", "vllm-graft-overlay"]


def receipt_base(receipt: BuildReceipt) -> str:
    return f"docker:{receipt.base}@node-zsh"


def test_a_name_that_another_image_has_on_the_node_is_kept(
    away: Away, opener: Opener, tmp_path: Path
) -> None:
    bench, receipt, tag = built(away, opener, tmp_path)
    other = replace(bench.plan(receipt_base(receipt)), features=())
    with pytest.raises(BuildError) as caught:
        bench.build(other, tag)
    assert caught.value.code == "E422"
    assert "on node-zsh" in caught.value.what
    taken = bench.build(other, tag, force=True)
    assert taken.outcome == "loaded"
    assert away.engine.run("image", "inspect", "--format", "{{.Id}}", taken.replaced)
    away.engine.run("image", "rm", "--force", taken.replaced)


def test_an_image_that_a_node_has_not_is_named_with_the_node(away: Away, opener: Opener) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open(f"docker:{away.engine.name()}@node-bash")
    assert caught.value.code == "E333"
    assert "docker on node-bash has no image" in caught.value.what


def test_a_base_that_the_node_has_not_is_told(away: Away, opener: Opener, tmp_path: Path) -> None:
    bench = Bench(opener=opener, folder=tmp_path)
    bench.path = opener.variables["PATH"]
    other = imaging.Image.of([Item(path="only/here")], base_image_items())
    source = f"oci:{imaging.write_layout(tmp_path / 'base', other)}"
    tag = away.engine.name()
    with pytest.raises(BuildError) as caught:
        bench.build(bench.plan(source), tag, to="docker@node-dash")
    assert caught.value.code == "E421"
    assert "docker on node-dash" in caught.value.what
    assert away.engine.run("image", "ls", "--quiet", tag) == ""


def base_image_items() -> list[Item]:
    from building import base_items

    return base_items()


HEARING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from vllm_graft.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_leaves_nothing_on_the_node(away: Away, tmp_path: Path) -> None:
    heavy = [
        Item(path=f"{SITE}/vllm/big{number}.py", content=os.urandom(1 << 22))
        for number in range(20)
    ]
    tag = away.engine.load(Image.of(python(), vllm(), heavy))
    for wait in (0.5, 0.9, 1.3, 1.8, 2.4, 3.2):
        child = subprocess.Popen(
            [sys.executable, "-c", HEARING, "inspect", f"docker:{tag}@node-fish"],
            env={**away.nodes.variables, "VLLM_GRAFT_CACHE": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=120)
        assert child.returncode in (0, 130, -signal.SIGINT), told.decode()
        assert away.engine.run("ps", "--all", "--quiet") == "", told.decode()


def test_an_engine_that_only_root_may_use_is_used_through_sudo_or_told(
    away: Away, tmp_path: Path
) -> None:
    tag = away.engine.load(Image.of(python(), vllm()))
    socket = Path(away.engine.host.removeprefix("unix://"))
    rules = Path("/etc/sudoers.d") / f"vllm-graft-test-{os.getpid()}"
    if not rules.parent.is_dir():
        pytest.skip("no sudo on this machine")
    user = away.nodes.users["bash"]
    socket.chmod(0o600)
    try:
        with pytest.raises(NodeError) as caught:
            away.opener(tmp_path / "first").open(f"docker:{tag}@node-bash")
        assert caught.value.code == "E505"
        assert "usermod -aG docker" in caught.value.remedy
        rules.write_text(
            f'Defaults:{user} env_keep += "DOCKER_HOST"\n{user} ALL=(root) NOPASSWD: {shutil.which("docker")}\n'
        )
        rules.chmod(0o440)
        found = away.opener(tmp_path / "second").open(f"docker:{tag}@node-bash")
        assert found.version == "0.17.1"
    finally:
        rules.unlink(missing_ok=True)
        socket.chmod(0o666)


def test_a_node_whose_engine_is_down_is_told(tmp_path: Path) -> None:
    with nodes(environment={"DOCKER_HOST": "unix:///nowhere.sock"}) as made:
        variables = {"PATH": made.variables["PATH"]}
        with pytest.raises(NodeError) as caught:
            opener_at(tmp_path).open("docker:x@node-bash", variables=variables)
    assert caught.value.code == "E506"
    assert "docker on node-bash does not answer" in caught.value.what


def test_an_engine_that_hangs_is_not_told_to_be_started() -> None:
    engine = Engine(program="docker", node="spark1")
    answer = Completed(
        command=engine.command("ps", why="ask"),
        status=124,
        stdout=b"",
        stderr=b"it did not end within 120 seconds, and was ended\n",
        took=timedelta(seconds=120),
    )
    error = unusable_there(answer, engine)
    assert error.code == "E506"
    assert "restart" in error.remedy
    assert "systemctl start" not in error.remedy


def test_a_node_without_an_engine_is_told(tmp_path: Path) -> None:
    with nodes(hidden=True) as made:
        variables = {"PATH": made.variables["PATH"]}
        with pytest.raises(NodeError) as caught:
            opener_at(tmp_path).open("docker:x@node-bash", variables=variables)
    assert caught.value.code == "E504"
    assert caught.value.exit_status == 5
    assert "node-bash" in caught.value.what
