# All that is asked of a node before an image goes there, in one round trip. Each part is read by what reads it where it is asked
# alone, and is asked alone where it was not told here: what is wrong with an engine is said there.
"""What the engine of a node is and has, asked at once."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from vllm_graft.errors import SourceError
from vllm_graft.fleet.probes.engine import CONTAINERD_ROOT, engine_probe, image_folder, space_probe
from vllm_graft.fleet.together import ASKING, parts_of
from vllm_graft.image.engine import Engine, parse_inspection, parse_inspections
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.node_facts import EngineFacts, SpaceFacts
from vllm_graft.values.probe import NotKnown

_PATIENCE = timedelta(minutes=4)

_LOOK = """\
found() {
  ids=$("$@" image ls --quiet --no-trunc 2>/dev/null </dev/null); ended=$?
  [ "$ended" != 0 ] || return 0
  [ "$ended" != 127 ] || return 1
  case $("$@" image ls --quiet 2>&1 >/dev/null </dev/null) in *[Pp]ermission\\ denied*) return 1;; esac
  exit 0
}
tag=$1
if found docker; then set -- docker
elif command -v docker >/dev/null; then found sudo -n docker || exit 0; set -- sudo -n docker
elif found podman; then set -- podman
else exit 0
fi
ask engine echo "$@"
ask who sh -c 'cat /proc/sys/kernel/random/boot_id && uname -n && id -un'
ask unpacks sh -c 'echo as it is | gzip -dcf'
"$@" info --format '{{json .}}' 2>/dev/null </dev/null | {
  ask ids echo $ids
  [ -z "$ids" ] || ask images "$@" image inspect -- $(printf '%s\\n' $ids | sort -u)
  ask named "$@" image inspect -- "$tag"
  info=$(cat)
  ask info printf '%s\\n' "$info"
  name='s/.*"\\(DockerRootDir\\)": *"\\([^"]*\\)".*/\\2/p; s/.*"\\(graphRoot\\)": *"\\([^"]*\\)".*/\\2/p'
  root=$(printf '%s\\n' "$info" | sed -n "$name")
  containerd=$(CONTAINERD 2>/dev/null)
  ask containerd printf '%s\\n' "$containerd"
  containerd=$(printf %s "$containerd" | tr -d "\\"'")
  for folder in "$root" "$root/containerd" "${containerd:-/var/lib/containerd}"; do
    case $folder in /*) ask "space $folder" SPACE "$folder";; esac
  done
}
"""
"""Docker is taken before podman, and as this user before root: as in run/engine.py, which says what is wrong where this finds none."""


def look(tag: str) -> Command:
    """Ask for all that shipping an image of this name needs to know."""
    script = ASKING + _LOOK.replace("CONTAINERD", shlex.join(CONTAINERD_ROOT.argv)).replace(
        "SPACE", shlex.join(space_probe("").argv[:-1])
    )
    return Command(
        argv=("/bin/sh", "-c", script, "sh", tag),
        why="see what its engine is and has",
        timeout=_PATIENCE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was told; whatever was not is None."""

    program: str = ""
    """``docker`` or ``podman``; empty: none that can be used was found."""
    before: tuple[str, ...] = ()
    parts: Mapping[str, Completed]

    def facts(self, engine: Engine) -> EngineFacts | None:
        """Give what the engine says of itself."""
        if "info" not in self.parts:
            return None
        found = engine_probe(engine).answer(self.parts["info"])
        return None if isinstance(found, NotKnown) else found

    @property
    def unpacks(self) -> bool:
        """Whether ``gzip`` there gives on what is compressed, and what is not, as it is. Source: GNU gzip 1.10 to 1.13."""
        told = self.parts.get("unpacks")
        return told is not None and told.stdout.strip() == b"as it is"

    def identity(self, facts: EngineFacts) -> tuple[str, ...]:
        """Give what is the same where two names lead to one store of images; empty where it is not told.

        An engine's ID is copied with its disk, and a kernel draws another one whenever it starts. Source: Docker 20.10 to 28,
        `docker info`: ID; podman has none.
        """
        if "who" not in self.parts or not self.parts["who"].passed:
            return ()
        boot, *who = self.parts["who"].stdout.decode("utf-8", "replace").split()
        if facts.name == "podman":
            return (boot, *who, facts.root)
        return (boot, facts.id, facts.root) if facts.id else ()

    def images(self) -> tuple[ImageFacts, ...] | None:
        """Give all images."""
        if "ids" not in self.parts:
            return None
        ids = set(self.parts["ids"].stdout.decode("utf-8", "replace").split())
        if not ids:
            return ()
        if "images" not in self.parts:
            return None
        found = parse_inspections(self.parts["images"])
        return found if len(found) == len(ids) else None

    def named(self, engine: Engine, tag: str) -> tuple[ImageFacts | None] | None:
        """Give the image of the name that was asked for, if there is one."""
        if "named" not in self.parts:
            return None
        try:
            return (parse_inspection(self.parts["named"], engine, tag),)
        except SourceError as error:
            return (None,) if error.code == "E333" else None

    def space(self, facts: EngineFacts) -> SpaceFacts | None:
        """Give how much room there is where images are kept."""
        folder = facts.root
        if facts.is_containerd_store:
            told = self.parts.get("containerd")
            root = NotKnown(not_known="") if told is None else CONTAINERD_ROOT.answer(told)
            folder = image_folder(facts, *(() if isinstance(root, NotKnown) else (root,)))
        if (part := self.parts.get(f"space {folder}")) is None:
            return None
        space = space_probe(folder).answer(part)
        return None if isinstance(space, NotKnown) else space


def parse_look(answer: Completed) -> Looked:
    """Read what was answered."""
    parts = parts_of(answer)
    if "engine" not in parts or not answer.passed:
        return Looked(parts={})
    *before, program = parts["engine"].stdout.decode("utf-8", "replace").split()
    return Looked(program=program, before=tuple(before), parts=parts)
