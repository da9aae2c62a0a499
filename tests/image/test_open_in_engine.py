# The layers' merge is ours; here it is held against that of a real engine.
import contextlib
import io
import os
import random
import shutil
import signal
import socketserver
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

import imaging
from engines import Docker
from imaging import SITE, Image, Item, files, folder, hard, link, python, vllm
from opening import Opener, opener_at
from vllm_graft.errors import SourceError
from vllm_graft.image.entries import is_kept
from vllm_graft.image.tree import ImageTree
from vllm_graft.run.layers import scan_layer


@pytest.mark.parametrize(
    "place",
    [
        ([*python(), folder("tmp", 0o1777)], SITE, {}),
        (
            [link("opt/venv/bin/python3", "/usr/bin/python3"), *python()],
            "opt/venv/lib/python3.12/site-packages",
            {"Env": ["PATH=/opt/venv/bin:/usr/bin"]},
        ),
        (
            python("opt/conda/envs/serve", "3.11"),
            "opt/conda/envs/serve/lib/python3.11/site-packages",
            {},
        ),
    ],
)
@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_an_image_of_an_engine_is_read_without_being_run(
    docker: Docker,
    opener: Opener,
    tmp_path: Path,
    place: tuple[list[Item], str, dict[str, object]],
    architecture: str,
) -> None:
    before, site, told = place
    settings = {**told, "Volumes": {"/data": {}}}
    image = Image.of(before, vllm(site), settings=settings, architecture=architecture)
    volumes = docker.volumes()
    tag = docker.load(image)
    install = opener.open(f"docker:{tag}")
    other = opener_at(tmp_path / "other")
    same = other.open(f"oci:{imaging.write_layout(tmp_path / 'layout', image)}")
    assert install.digest == same.digest
    assert install.location == f"/{site} in {tag}"
    assert install.image is not None
    assert install.image.platform == f"linux/{architecture}"
    assert {each.name for each in install.distributions} == {"torch", "vllm"}
    assert docker.containers() == []
    assert docker.left(volumes) == frozenset()


def test_neither_entrypoint_nor_interpreter_of_an_image_is_ever_started(
    docker: Docker, opener: Opener
) -> None:
    settings = {"Entrypoint": ["/usr/bin/python3", "-c", "1"], "Cmd": ["serve"]}
    tag = docker.load(Image.of(python(), vllm(), settings=settings))
    began = f"{time.time():.9f}"
    opener.open(f"docker:{tag}")
    chosen = ("--since", began, "--until", f"{time.time():.9f}", "--filter", f"image={tag}")
    happened = docker.run(
        "events", *chosen, "--filter", "type=container", "--format", "{{.Action}}"
    )
    seen = set(happened.split())
    assert {"create", "destroy"} <= seen
    assert seen.isdisjoint({"start", "exec_create", "attach"})


WITHOUT_SOCKET = """#!/bin/sh
[ "$1" = context ] && { echo "$CONTEXT"; exit 0; }
[ "$1" = cp ] && echo "$*" >> "$ASKED"
exec DOCKER "$@"
"""


@pytest.mark.parametrize("socket", ["", "tcp://somewhere:2376", "unix:///nowhere", "breaks off"])
def test_what_the_engines_socket_does_not_give_its_client_does(
    docker: Docker, opener: Opener, tmp_path: Path, socket: str
) -> None:
    image = Image.of([*python(), folder("tmp", 0o1777)], vllm())
    tag = docker.load(image)
    wanted = opener.open(f"docker:{tag}")
    real = shutil.which("docker")
    assert real is not None
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/docker"
    script.write_text(WITHOUT_SOCKET.replace("DOCKER", real))
    script.chmod(0o755)
    other = opener_at(
        tmp_path / "other",
        PATH=f"{script.parent}:{os.environ['PATH']}",
        ASKED=str(tmp_path / "asked"),
        CONTEXT=f"unix://{tmp_path}/s" if socket == "breaks off" else socket,
    )
    with half_answers(tmp_path / "s"):
        found = other.open(f"docker:{tag}")
    assert found.digest == wanted.digest
    assert found.distributions == wanted.distributions
    assert f"/{SITE} -" in (tmp_path / "asked").read_text()
    assert docker.containers() == []


@contextlib.contextmanager
def half_answers(place: Path) -> Generator[None]:
    """A daemon that greets, and is gone in the middle of everything else that it says."""

    class Half(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = self.rfile.readline()
            if b"/_ping" in asked:
                self.wfile.write(
                    b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"
                )
                return
            part = imaging.layer(files("vllm", {"__init__.py": b"x"}))[:1024]
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    with socketserver.ThreadingUnixStreamServer(str(place), Half) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_an_editable_checkout_elsewhere_in_the_image_is_found(
    docker: Docker, opener: Opener
) -> None:
    image = Image.of(
        [*python(), Item(path=f"{SITE}/vllm.pth", content=b"/workspace/src\n")],
        vllm("workspace/src"),
    )
    tag = docker.load(image)
    assert opener.open(f"docker:{tag}").location == f"/workspace/src in {tag}"


def test_files_that_an_installer_linked_from_its_store_are_read_in_an_engine(
    docker: Docker, opener: Opener
) -> None:
    linked: list[Item] = []
    for number, item in enumerate(vllm()):
        store = f"{SITE}/aaa/{number:04x}"
        linked += [Item(path=store, content=item.content), hard(item.path, store)]
    install = opener.open(f"docker:{docker.load(Image.of(python(), linked))}")
    assert install.version == "0.17.1"
    assert install.native.extensions == ("vllm._C",)


def test_an_image_that_is_not_there_is_named(docker: Docker, opener: Opener) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open(f"docker:{docker.name()}")
    assert caught.value.code == "E333"
    assert "docker pull" in caught.value.remedy


def test_an_image_of_an_engine_without_vllm_is_refused(docker: Docker, opener: Opener) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open(f"docker:{docker.load(Image.of(python(), [folder(SITE)]))}")
    assert caught.value.code == "E320"


@pytest.mark.parametrize("seed", range(6))
def test_layers_are_laid_over_one_another_as_the_engine_does(docker: Docker, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (the same layers each time)
    image = Image.of(*(RandomLayer(chance).items() for _ in range(5)))
    container = docker.run("create", docker.load(image), "/never").strip()
    try:
        exported = subprocess.run(
            ["docker", "export", container], capture_output=True, check=True
        ).stdout
    finally:
        docker.run("rm", container)
    tree = ImageTree.of(
        scan_layer(io.BytesIO(each), where="a layer")[0].entries for each in image.layers
    )
    assert shown(tree) == exported_tree(exported)


def exported_tree(archive: bytes) -> dict[str, object]:
    found: dict[str, object] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            name = member.name.rstrip("/")
            stream = members.extractfile(member) if member.isreg() else None
            if member.issym():
                found[name] = member.linkname
            elif member.isdir():
                found[name] = (member.mode & 0o7777, member.uid)
            elif stream is not None and is_kept(name):
                found[name] = stream.read()
    return {name: each for name, each in found.items() if name.startswith("vllm")}


def shown(tree: ImageTree) -> dict[str, object]:
    found: dict[str, object] = {}
    pending = [("", tree.root)]
    while pending:
        above, node = pending.pop()
        for name, inner in (node.children or {}).items():
            path = f"{above}/{name}".lstrip("/")
            entry = inner.entry
            if entry.kind == "link":
                found[path] = entry.target
            elif inner.children is not None:
                found[path] = (entry.mode, entry.uid)
            elif is_kept(path):
                found[path] = entry.content
            pending.append((path, inner))
    return found


class RandomLayer:
    """A layer as an engine's own differ writes it: each name once, whiteouts before or behind."""

    names = ("a.py", "b.py", "c", "d", "e.py")

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        mode = chance.choice((0o755, 0o775))
        self.found = {"vllm": folder("vllm", mode, chance.randrange(3))}

    def items(self) -> list[Item]:
        for _ in range(14):
            self.add()
        gone = [item for each in list(self.found) for item in self.gone_below(each)]
        found = list(self.found.values())
        return [*found, *gone] if self.chance.random() < 0.5 else [*gone, *found]

    def add(self) -> None:
        steps = [self.chance.choice(("c", "d")) for _ in range(self.chance.randrange(3))]
        path = "/".join(("vllm", *steps, self.chance.choice(self.names)))
        above = ["/".join(path.split("/")[:count]) for count in range(1, path.count("/") + 1)]
        blocked = any(each in self.found and self.found[each].kind != "folder" for each in above)
        if blocked or any(each == path or each.startswith(f"{path}/") for each in self.found):
            return
        for each in above:
            self.found.setdefault(each, folder(each, 0o755, self.chance.randrange(3)))
        if path.endswith(".py"):
            self.found[path] = Item(path=path, content=self.chance.randbytes(5).hex().encode())
        elif self.chance.random() < 0.7:
            self.found[path] = folder(path, 0o711)
        else:
            self.found[path] = link(path, "a.py")

    def gone_below(self, path: str) -> list[Item]:
        name = self.chance.choice(self.names)
        if self.found[path].kind != "folder" or f"{path}/{name}" in self.found:
            return []
        drawn = self.chance.random()
        gone = f".wh.{name}" if drawn < 0.4 else ".wh..wh..opq" if drawn < 0.5 else ""
        return [Item(path=f"{path}/{gone}")] if gone else []


HEARING = """
import signal, sys
# A shell's background jobs, and so the tests', may be deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from vllm_graft.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_leaves_nothing_behind(docker: Docker, tmp_path: Path) -> None:
    heavy = [
        Item(path=f"{SITE}/vllm/big{number}.py", content=os.urandom(1 << 22))
        for number in range(30)
    ]
    tag = docker.load(Image.of(python(), vllm(), heavy))
    for wait in (0.15, 0.3, 0.45, 0.6, 0.9, 1.2):
        child = subprocess.Popen(
            [sys.executable, "-c", HEARING, "inspect", f"docker:{tag}"],
            env={**os.environ, "VLLM_GRAFT_CACHE": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=60)
        assert docker.containers() == [], told.decode()
        assert child.returncode in (0, 130, -signal.SIGINT), told.decode()


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (
            "echo 'Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?' >&2; exit 1",
            "E331",
        ),
        (
            "echo 'permission denied while trying to connect to the Docker daemon socket' >&2; exit 1",
            "E332",
        ),
        ("echo 'Error: No such image: vllm-node' >&2; exit 1", "E333"),
        ("echo 'Error: vllm-node: image not known' >&2; exit 125", "E333"),
        ("echo 'server misbehaving' >&2; exit 1", "E334"),
        ("echo '[{}]'", "E334"),
    ],
)
def test_what_an_engine_says_is_understood(
    opener: Opener, tmp_path: Path, program: str, code: str
) -> None:
    script = tmp_path / "docker"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    with pytest.raises(SourceError) as caught:
        opener.open("docker:vllm-node", variables={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert caught.value.code == code


def test_a_machine_without_an_engine_says_so(opener: Opener, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open("docker:vllm-node", variables={"PATH": str(tmp_path)})
    assert caught.value.code == "E330"


@pytest.mark.usefixtures("docker")
def test_a_daemon_that_is_not_there_is_told_by_the_real_client(
    opener: Opener, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open("docker:x", variables={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    assert caught.value.code == "E331"
