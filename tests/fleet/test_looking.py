# The scripts are run here by /bin/sh, with an engine's client that says what real ones were heard to say.
import json
import os
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from vllm_graft.fleet.looking import Looked, look, parse_look
from vllm_graft.fleet.together import parse_together, together
from vllm_graft.image.engine import Engine
from vllm_graft.values.command import Command, Completed

LAYER = "sha256:" + "1" * 64
IMAGE = {
    "Id": "sha256:" + "a" * 64,
    "RepoTags": ["vllm:1"],
    "Architecture": "amd64",
    "Os": "linux",
    "Config": {"Cmd": ["/bin/sh"], "Labels": {"say": "vllm-graft-part ended 0\nvllm-graft-part 0"}},
    "RootFS": {"Type": "layers", "Layers": [LAYER]},
}
INFO = {
    "Architecture": "x86_64",
    "ServerVersion": "28.5.2",
    "Driver": "overlay2",
    "DockerRootDir": "/",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
}
CLIENT = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 9
case "$*" in
  *"image ls"*) cat ids; [ ! -e denied ] || { echo "Got permission denied while trying to connect" >&2; exit 1; };;
  *"info"*) cat info;;
  *"inspect -- vllm:1"*) cat named || { echo "Error: No such image: vllm:1" >&2; exit 1; };;
  *"inspect"*) cat images;;
esac
"""


def run(command: Command, **variables: str) -> Completed:
    done = subprocess.run(
        command.argv, env={**os.environ, **variables}, capture_output=True, check=False
    )
    return Completed(
        command=command,
        status=done.returncode,
        stdout=done.stdout,
        stderr=done.stderr,
        took=timedelta(),
    )


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """A folder with a client of an engine that has one image."""
    (tmp_path / "docker").write_text(CLIENT)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "ids").write_text(f"{IMAGE['Id']}\n{IMAGE['Id']}\n")
    for name in ("images", "named"):
        (tmp_path / name).write_text(json.dumps([IMAGE]))
    (tmp_path / "info").write_text(json.dumps(INFO) + "\n")
    return tmp_path


def looked(client: Path) -> Looked:
    return parse_look(run(look("vllm:1"), PATH=f"{client}:{os.environ['PATH']}"))


ENGINE = Engine(program="docker", node="spark1")


def test_all_that_shipping_asks_is_told_in_one_answer(client: Path) -> None:
    told = looked(client)
    assert (told.program, told.before) == ("docker", ())
    facts = told.facts(ENGINE)
    assert facts is not None
    assert (facts.version, facts.architecture, facts.root) == ("28.5.2", "amd64", "/")
    images = told.images()
    assert images is not None
    assert [[str(each) for each in image.layers] for image in images] == [[LAYER]]
    (named,) = told.named(ENGINE, "vllm:1") or (None,)
    assert named is not None
    assert named.layers == images[0].layers
    space = told.space(facts)
    assert space is not None
    assert (space.place, space.size > space.free > 0) == ("/", True)


def test_no_image_of_the_name_is_another_answer_than_none(client: Path) -> None:
    (client / "named").unlink()
    assert looked(client).named(ENGINE, "vllm:1") == (None,)
    assert Looked(parts={}).named(ENGINE, "vllm:1") is None


def test_an_engine_without_images_says_so(client: Path) -> None:
    (client / "ids").write_text("")
    assert looked(client).images() == ()


def test_what_was_not_told_of_all_images_is_to_be_asked_again(client: Path) -> None:
    (client / "images").write_text(json.dumps([{**IMAGE, "Os": None, "RootFS": {"Layers": ["?"]}}]))
    assert looked(client).images() is None
    (client / "images").write_text("noise")
    assert looked(client).images() is None


def test_an_engine_for_root_only_is_asked_through_sudo(client: Path) -> None:
    (client / "denied").touch()
    assert looked(client).program == ""
    (client / "sudo").write_text(f'#!/bin/sh\nrm -f {client}/denied; shift; exec "$@"\n')
    (client / "sudo").chmod(0o755)
    told = looked(client)
    assert (told.program, told.before) == ("docker", ("sudo", "-n"))


def test_each_command_has_its_own_end_and_its_own_words() -> None:
    asked = [
        Command(argv=("sh", "-c", words), why="say something", timeout=timedelta(seconds=2))
        for words in (
            "printf 'no end of line'; cat; exit 3",
            "echo said; echo aside >&2",
            "kill $$",
        )
    ]
    command = together(asked, why="say several things")
    assert command.timeout == timedelta(seconds=6)
    first, second, third = parse_together(run(command), asked)
    assert (first.status, first.stdout) == (3, b"no end of line")
    assert (second.status, second.stdout.strip(), second.stderr.strip()) == (0, b"said", b"aside")
    assert (third.status, third.command) == (143, asked[2])


def test_what_broke_off_is_no_answer() -> None:
    asked = [Command(argv=("sh", "-c", words), why="say something") for words in ("echo", "true")]
    answer = run(together(asked, why="say several things"))
    cut = answer.stdout[: answer.stdout.rindex(b"ended")]
    assert parse_together(replace(answer, stdout=cut), asked) == ()
