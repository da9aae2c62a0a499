# What a machine has of a model is asked of /bin/sh with what every system has: find, stat, sha256sum, df. No Python is needed
# there, and nothing that is asked changes anything.
#
# Bytes are told apart by their number and by a seal: the sha256 of a file of up to 16 MiB, of a larger one that of its first and
# its last 64 KiB. In those are all names and places of tensors, and what a transfer that broke off has not written.
"""Asking a machine what it has of a model."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from vllm_graft.errors import NodeError
from vllm_graft.fleet.weights.layout import STAGE, staged
from vllm_graft.fleet.weights.safetensors import Shard
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.weights import ModelName

_QUICK = timedelta(minutes=2)
_SLOW = timedelta(minutes=20)
"""A hundred files on a disk that is busy."""

SMALL = 16 << 20
"""Bytes up to which a file is read whole."""
_END = 64 << 10
_SIZES = (str(SMALL), str(_END))
_LONGEST_HEADER = 100_000_000
"""Source: safetensors 0.8, safetensors/src/tensor.rs, MAX_HEADER_SIZE."""

_LOOK = r"""
say() { printf '%s\t%s\n' "$1" "$2"; }
hub=$3
[ -n "$hub" ] || hub=${HF_HUB_CACHE:-${HUGGINGFACE_HUB_CACHE:-${HF_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/huggingface}/hub}}
case $1 in
folder) root=$2;;
*) root=${hub%/}/$2;;
esac
case $root in "~/"*) root=$HOME/${root#"~/"};; esac
say machine "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null) $(uname -n) $(id -u)"
say root "$root"
[ ! -d "$root" ] || say there yes
above=$root
while [ ! -d "$above" ]; do above=$(dirname -- "$above"); done
say user "$(id -un)"
owned=$above
[ "$1" = folder ] || [ ! -d "${root%/*}" ] || owned=${root%/*}
say owner "$(stat -L -c %u:%g -- "$owned" 2>/dev/null || stat -L -f %u:%g -- "$owned")"
for each in "$above" "$root" "$root/blobs" "$root/snapshots" "$root/refs" "$root/snapshots"/* "$root/$4"; do
    [ -d "$each" ] || continue
    { [ -w "$each" ] && [ -x "$each" ]; } ||
        say shut "$(stat -L -c %U -- "$each" 2>/dev/null || stat -L -f %Su -- "$each") $each"
done
say free "$(df -Pk -- "$above" | tail -n 1 | awk '{print $4}')"
say rsync "$(rsync --version 2>/dev/null | head -n 1)"
[ "$1" = id ] && cd -- "$root" 2>/dev/null || exit 0
[ ! -d refs ] || find refs -type f | while IFS= read -r each; do say ref "${each#refs/} $(cat -- "$each")"; done
[ ! -d snapshots ] || ls snapshots | while IFS= read -r each; do say snapshot "$each"; done
"""

_DESCRIBE = r"""
cd -- "$1" 2>/dev/null || exit 0
sum=sha256sum; command -v sha256sum >/dev/null || sum="shasum -a 256"
own=sha1sum; command -v sha1sum >/dev/null || own=shasum
if [ "$2" = - ]; then cat; else
    find -L "$2" \( -name .git -o -name "$5" -o -path '*/.cache/huggingface' \) -prune -o \( -type f -o -type l \) -print
fi | while IFS= read -r path; do
    size=$(stat -L -c %s -- "$path" 2>/dev/null || stat -L -f %z -- "$path" 2>/dev/null)
    if [ -z "$size" ] || [ ! -f "$path" ]; then printf 'gone\t-\t-\t-\t%s\n' "$path"; continue; fi
    if [ ! -r "$path" ]; then printf 'shut\t-\t-\t-\t%s\n' "$path"; continue; fi
    if [ "$size" -le "$3" ]; then
        seal=$($sum <"$path" | cut -c1-64)
        named=$({ printf 'blob %s\0' "$size"; cat -- "$path"; } | $own | cut -c1-40)
    else
        seal=$(head -c "$4" -- "$path" | $sum | cut -c1-64)-$(tail -c "$4" -- "$path" | $sum | cut -c1-64)
        named=-
    fi
    target=$(readlink -- "$path" || echo -)
    printf '%s\t%s\t%s\t%s\t%s\n' "$size" "$seal" "$named" "$target" "$path"
done
"""

_HEADERS = r"""
cd -- "$1" || exit
pack=cat; ! command -v gzip >/dev/null || pack='gzip -c'
while IFS= read -r path; do
    size=$(stat -L -c %s -- "$path" 2>/dev/null || stat -L -f %z -- "$path")
    length=$(head -c 8 -- "$path" | od -A n -t u8 | tr -d ' \n')
    [ "${#length}" -gt 0 ] && [ "${#length}" -lt 10 ] && [ "$length" -le "$2" ] &&
        [ "$((length + 8))" -le "$size" ] || length=none
    printf '%s\t%s\n' "$length" "$path"
    [ "$length" = none ] || head -c "$((length + 8))" -- "$path" | tail -c +9
done | $pack
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A machine, as far as a model's weights are concerned."""

    machine: str
    """Tells it from every other, and its user."""
    root: str
    """The folder of the model: in a cache the one that holds ``blobs`` and ``snapshots``."""
    is_there: bool
    user: str
    owner: str
    """Numbers of the user and the group whose the files are to be where root puts them there: those of the cache, or of the nearest
    folder that is there."""
    shut: tuple[tuple[str, str], ...]
    """(user that it belongs to, folder): those that would have to be written into and cannot be."""
    free: int
    """Bytes."""
    rsync: tuple[int, ...]
    """Its version; empty: there is none, or another program of that name."""
    references: Mapping[str, str]
    """Name of a revision → its commit."""
    snapshots: tuple[str, ...]
    """Commits of which there is something."""

    @property
    def has_rsync(self) -> bool:
        """Whether it has one that tells how far it is. Source: rsync's NEWS: ``--info`` came with 3.1.0."""
        return self.rsync >= (3, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file that a machine was asked about."""

    path: str
    size: int | None
    """None: it is not there, or may not be read."""
    seal: str = ""
    git_name: str = ""
    """What git names this content, for a small one. A cache keeps small files under that name."""
    target: str = ""
    """What its link says; empty: it is none."""
    is_shut: bool = False
    """It is there and may not be read."""


def ask_found(name: ModelName, hub: str) -> Command:
    """Ask what there is of a model; ``hub``: the cache's folder, empty for the machine's own.

    Source of where that is: huggingface_hub 1.x and 2.x, constants.py: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME.
    """
    kind = "folder" if name.is_folder else "id"
    place = name.text if name.is_folder else f"models--{name.text.replace('/', '--')}"
    return Command(
        argv=("/bin/sh", "-c", _LOOK, "sh", kind, place, hub, STAGE),
        why=f"see what it has of {name.text}",
        timeout=_QUICK,
    )


def parse_found(answer: Completed) -> Found:
    """Read what :func:`ask_found` gives.

    Raises:
        NodeError: E558, it is something else.
    """
    told: dict[str, list[str]] = {}
    for line in answer.stdout.decode("utf-8", "surrogateescape").split("\n"):
        key, _, value = line.partition("\t")
        told.setdefault(key, []).append(value)
    if not answer.passed or not told.keys() >= {"root", "user", "owner", "free", "rsync"}:
        raise _not_told(answer)
    free = told["free"][0]
    return Found(
        machine=told.get("machine", [""])[0],
        root=told["root"][0],
        is_there="there" in told,
        user=told["user"][0],
        owner=told["owner"][0],
        shut=tuple(dict.fromkeys(_pair(each) for each in told.get("shut", ()))),
        free=int(free) << 10 if free.isdecimal() else 0,
        rsync=_version(told["rsync"][0]),
        references=dict(_pair(each) for each in told.get("ref", ())),
        snapshots=tuple(told.get("snapshot", ())),
    )


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition(" ")
    return first, second.strip()


def _version(line: str) -> tuple[int, ...]:
    """Read ``rsync  version 3.2.7  protocol version 31``; openrsync says ``openrsync: protocol version 29``."""
    words = line.split()
    if words[:2] != ["rsync", "version"] or len(words) < 3:  # noqa: PLR2004
        return ()
    numbers = words[2].removeprefix("v").split(".")
    return tuple(int(each) for each in numbers[:2] if each.isdecimal())


def ask_folder(root: str, folder: str) -> Command:
    """Ask about every file below a folder of ``root``, links followed; what git and Hugging Face keep beside them is left out."""
    return Command(
        argv=("/bin/sh", "-c", _DESCRIBE, "sh", root, folder, *_SIZES, STAGE),
        why=f"see which files are in {root}",
        timeout=_SLOW,
    )


def ask_files(root: str, paths: Iterable[str]) -> Command:
    """Ask about some files below a folder."""
    return Command(
        argv=("/bin/sh", "-c", _DESCRIBE, "sh", root, "-", *_SIZES),
        why=f"see which files are in {root}",
        stdin=_lines(paths),
        timeout=_SLOW,
    )


def parse_files(answer: Completed) -> Mapping[str, FoundFile]:
    """Read what :func:`ask_files` and :func:`ask_folder` give: path → file. Paths have no ``./`` before them.

    Raises:
        NodeError: E558, it is something else.
    """
    if not answer.passed:
        raise _not_told(answer)
    found: dict[str, FoundFile] = {}
    for line in answer.stdout.decode("utf-8", "surrogateescape").splitlines():
        fields = line.split("\t", 4)
        if len(fields) != 5:  # noqa: PLR2004 (what the script says)
            raise _not_told(answer)
        size, seal, git_name, target, path = fields
        path = path.removeprefix("./")
        if not size.isdecimal():
            found[path] = FoundFile(path=path, size=None, is_shut=size == "shut")
            continue
        found[path] = FoundFile(
            path=path,
            size=int(size),
            seal=seal,
            git_name=git_name.strip("-"),
            target="" if target == "-" else target,
        )
    return found


def ask_headers(root: str, paths: Sequence[str]) -> Command:
    """Ask for the headers of safetensors files."""
    return Command(
        argv=("/bin/sh", "-c", _HEADERS, "sh", root, str(_LONGEST_HEADER)),
        why="see whether the weights are whole",
        stdin=_lines(paths),
        timeout=_SLOW,
    )


def parse_headers(answer: Completed) -> Mapping[str, Shard]:
    """Read what :func:`ask_headers` gives: path → header.

    Raises:
        NodeError: E558, it is something else.
    """
    try:
        said = _unpacked(answer.stdout)
        found: dict[str, Shard] = {}
        while said:
            line, _, said = said.partition(b"\n")
            length, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
            if length == "none":
                found[path] = Shard(header=None)
                continue
            found[path] = Shard(header=said[: int(length)])
            said = said[int(length) :]
    except (ValueError, zlib.error) as error:
        raise _not_told(answer) from error
    if not answer.passed:
        raise _not_told(answer)
    return found


def _unpacked(said: bytes) -> bytes:
    return zlib.decompress(said, wbits=31) if said.startswith(b"\x1f\x8b") else said


def ask_content(root: str, path: str) -> Command:
    """Ask for a whole file."""
    return Command(argv=("cat", "--", f"{root}/{path}"), why=f"read {path}", timeout=_QUICK)


def ask_staged(root: str, paths: Iterable[str]) -> Command:
    """Ask what has been sent of some files and is not in its place."""
    return ask_files(staged(root), paths)


def ask_digest(place: str, size: int) -> Command:
    """Ask for the sha256 of the first bytes of a file."""
    script = 'head -c "$1" -- "$2" | if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c1-64'
    return Command(
        argv=("/bin/sh", "-c", script, "sh", str(size), place),
        why="see whether what has arrived can be gone on with",
        timeout=_SLOW,
    )


def _lines(paths: Iterable[str]) -> bytes:
    return "".join(f"{path}\n" for path in paths).encode("utf-8", "surrogateescape")


def _not_told(answer: Completed) -> NodeError:
    return NodeError(
        f"it cannot be asked what it has of a model: {answer.last_lines(2) or f'status {answer.status}'}",
        remedy="see that find, stat, sha256sum, df and od can be run there",
        code="E558",
    )
