# rsync carries the bytes, from the machine that has them to the one that does not, over the path that was found. What broke off
# goes on where it ended: the part that is there is read and compared, so that it is not only as long but the same
# (--append-verify); and each file is compared as a whole when it has arrived.
"""What sends the files of a model, and puts them in place."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from vllm_graft.errors import NodeError, VerificationError
from vllm_graft.fleet.hop import Hop
from vllm_graft.fleet.weights.layout import STAGE, placing, staged, stored
from vllm_graft.values.amount import a_few
from vllm_graft.values.command import Command, Completed
from vllm_graft.values.weights import WeightFile, Weights

_QUICK = timedelta(minutes=2)
_SLOW = timedelta(minutes=30)
"""To write to a disk what is in memory."""
_SILENCE = timedelta(minutes=15)
"""So long a transfer may be without a byte: what has arrived of a large file is read first. Then its network is gone."""
_STREAM = timedelta(hours=1)
"""A stream says how far it is only where the machine that sends has GNU's dd."""

_THERE = "there"
"""What rsync is told as the host; its shell knows which one that is."""

_PLACE = """\
set -e
root=$1 stage=$2 commit=$3 reference=$4 owner=$5
cd -- "$root"
shot=.
[ -z "$commit" ] || shot=snapshots/$commit
goes=$shot
[ -d "$shot" ] || shot=$stage/new
mkdir -p -- "$shot"
sync -f "$stage" 2>/dev/null || true
tab=$(printf '\\t')
while IFS=$tab read -r kind one other; do
    case $kind in
    blob) mkdir -p blobs; mv -f -- "$stage/files/blobs/$one" "blobs/$one";;
    file) mkdir -p -- "$(dirname -- "$shot/$one")"; mv -f -- "$stage/files/$other" "$shot/$one";;
    link) mkdir -p -- "$(dirname -- "$shot/$one")"; ln -sfn -- "$other" "$shot/$one";;
    esac
done
[ "$shot" = "$goes" ] || { mkdir -p snapshots; mv -- "$shot" "$goes"; }
if [ -n "$reference" ]; then
    mkdir -p -- "$(dirname -- "refs/$reference")"
    printf %s "$commit" >"$stage/reference"
    mv -f -- "$stage/reference" "refs/$reference"
fi
rm -rf -- "$stage"
[ "$(id -u)" != 0 ] || chown -hR -- "$owner" .
"""


def prepare(root: str, commit: str, files: Iterable[WeightFile]) -> Command:
    """Make the folder for what is not whole, and say in it what is to come."""
    names = "".join(f"{stored(file, commit)}\0" for file in files)
    return Command(
        argv=("/bin/sh", "-c", 'mkdir -p -- "$1/files" && cat >"$1/list"', "sh", f"{root}/{STAGE}"),
        why="make the folder for what is not whole",
        stdin=names.encode("utf-8", "surrogateescape"),
        timeout=_QUICK,
    )


def rsync(hop: Hop, source: str, root: str) -> Command:
    """Send what :func:`prepare` has named from below ``source`` to the folder for what is not whole.

    Run on ``hop.client``. Source of the options: rsync(1), 3.1 to 3.5. ``--files-from`` with a host is a file there;
    without ``--perms``, ``--chmod`` gives new files what the umask there allows. ``--blocking-io``: rsync else hands its remote
    shell pipes that do not block, and a program in it that finds one full is told to try again, and ends. ``--timeout``: both
    ends give up where the other is silent.
    """
    far, near = f"{_THERE}:", ""
    sender, receiver = (far, near) if hop.kind == "pull" else (near, far)
    return Command(
        argv=(
            *("env", "LC_ALL=C", "rsync", "--protect-args", "--copy-links", "--times"),
            *("--chmod=ugo=rwX", "--append-verify", "--no-inc-recursive", "--info=progress2"),
            *("--blocking-io", f"--timeout={_SILENCE.seconds}"),
            *("--from0", f"--files-from={receiver}{root}/{STAGE}/list", "-e", hop.remote_shell),
            *(f"{sender}{source}/", f"{receiver}{staged(root)}"),
        ),
        why="send the weights",
        timeout=2 * _SILENCE,
    )


_RSYNC_SAYS = re.compile(rb"([\d,]+) +\d+%")


def bytes_sent(said: bytes) -> int | None:
    """Read how many bytes have arrived; None where this says nothing of it.

    Source: rsync(1), ``--info=progress2``: ``  21,430,272  42%   20.39MB/s    0:00:01``, behind a carriage return.
    """
    found = _RSYNC_SAYS.findall(said)
    return int(found[-1].replace(b",", b"")) if found else None


def give_rest(source: str, path: str, had: int) -> Command:
    """Say what stands in a file behind the bytes that have arrived."""
    return Command(
        argv=("tail", "-c", f"+{had + 1}", "--", f"{source}/{path}"),
        why="send the weights",
        timeout=_STREAM,
    )


def take_rest(root: str, path: str) -> Command:
    """Put what is said behind the bytes that have arrived."""
    script = 'mkdir -p -- "$(dirname -- "$1")" && cat >>"$1"'
    return Command(
        argv=("/bin/sh", "-c", script, "sh", staged(root, path)),
        why="receive the weights",
        timeout=_STREAM,
    )


def remove_staged(root: str, paths: Sequence[str]) -> Command:
    """Remove what has arrived and is wrong."""
    return Command(
        argv=("rm", "-f", "--", *(staged(root, path) for path in paths)),
        why="remove what has arrived and is wrong",
        timeout=_QUICK,
    )


def place(
    weights: Weights,
    root: str,
    owner: str,
    files: tuple[Sequence[WeightFile], Sequence[WeightFile]],
) -> Command:
    """Put everything in its place; ``files``: those that are lacking, and those of them that have arrived.

    ``owner``: user and group that the files are to belong to where root puts them there.
    """
    stage = f"{root}/{STAGE}"
    return Command(
        argv=(
            *("/bin/sh", "-c", _PLACE, "sh", root, stage),
            *(weights.commit, weights.reference, owner),
        ),
        why="put the weights in their place",
        stdin=placing(weights, *files),
        timeout=_SLOW,
    )


def not_sent(answer: Completed, node: str) -> NodeError:
    """Say why the weights did not arrive, or could not be put in place."""
    said = answer.last_lines(3) or f"it ended with status {answer.status}"
    if "no space left" in said.lower() or "disk quota exceeded" in said.lower():
        return NodeError(
            f"the disk of {node} is full: {said}",
            remedy="make room there and run this again: what has arrived is not sent twice",
            code="E553",
        )
    return NodeError(
        f"the weights did not reach {node}: {said}",
        remedy="run this again: what has arrived is not sent twice",
        code="E556",
    )


def arrived_otherwise(paths: Sequence[str], node: str) -> VerificationError:
    """Say that what has arrived is not what was sent."""
    return VerificationError(
        f"on {node}, {len(paths)} files are not what was sent, by their size or by what stands in them:"
        f" {a_few(paths)}",
        remedy="they were removed: run this again. If it happens again, look for a failing disk, or for somebody who writes"
        " into the same folder",
        code="E610",
    )
