# All or nothing in a directory tree. The journal (vllm/.vllm-graft/<plan>/) holds the originals and every new
# file before the first one is put in place; then putting in place is renames only. Whatever ends the program in
# between, kill -9 included, the journal is left in phase "writing" or "reverting", and the next run undoes it
# before it does anything else. So there are three states of a tree: untouched, grafted, and one that the next
# run makes untouched again. `--revert` is the same undoing, asked for.
"""Writing an overlay into a tree, and taking it back, all or nothing."""

import json
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vllm_graft.errors import BuildError, GraftError, VerificationError
from vllm_graft.image.overlay import JOURNAL, OverlayFile, refuse_unsafe, syntax_complaint
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.tree import read_files, remove_bytecode
from vllm_graft.values.digest import Digest

Phase = Literal["writing", "applied", "reverting"]

_REMEDY_REPEAT = (
    "mend the cause, then run the same command again: it first undoes what is half done"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    path: str
    before: Digest | None
    after: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Journal:
    folder: Path
    phase: Phase
    plan: Digest
    entries: tuple[_Entry, ...]
    folders: tuple[str, ...]
    """Folders that the overlay made, outermost first."""


def applied_plans(root: Path) -> tuple[Digest, ...]:
    """Give the plans that are applied here."""
    return tuple(journal.plan for journal in _journals(root) if journal.phase == "applied")


def unfinished_plans(root: Path) -> tuple[Digest, ...]:
    """Give the plans that an earlier run was ended in the middle of."""
    return tuple(journal.plan for journal in _journals(root) if journal.phase != "applied")


def recover(root: Path) -> tuple[Digest, ...]:
    """Undo what an earlier run was ended in the middle of; gives the plans concerned.

    Raises:
        BuildError: E409, E410, E413 as for :func:`revert`.
    """
    with held_interrupts():
        return _recover(root)


def _recover(root: Path) -> tuple[Digest, ...]:
    for leftover in _folders(root, ".new", ".gone"):
        shutil.rmtree(leftover)
    broken = [journal for journal in _journals(root) if journal.phase != "applied"]
    for journal in broken:
        _undo(root, journal)
    _remove_if_empty(root / JOURNAL)
    return tuple(journal.plan for journal in broken)


def write_overlay(
    root: Path, plan: Digest, files: Sequence[OverlayFile], plan_bytes: bytes
) -> None:
    """Put every file in place, read it back, and remember what was there before.

    Raises:
        BuildError: E409, the system refused; the tree is as it was before.
        VerificationError: E601, what was read back is not what was written; likewise undone.
    """
    with held_interrupts() as obey_interrupt:
        try:
            journal = _prepare(root, plan, files, plan_bytes)
            for number, file in enumerate(files):
                obey_interrupt()
                (journal.folder / f"{number}.new").replace(root / file.path)
                remove_bytecode(root, file.path)
            _sync_folders(root, (file.path for file in files))
            _read_back(root, files)
            obey_interrupt()
            _set_phase(journal, "applied")
        except BaseException as failure:
            undone = _undo_after(root, plan, failure)
            if isinstance(failure, OSError):
                raise BuildError(
                    f"the graft could not be written into {root}: {failure.strerror or failure}; {undone}",
                    remedy=_REMEDY_REPEAT,
                    code="E409",
                ) from failure
            raise


def revert(root: Path, plan: Digest) -> tuple[str, ...]:
    """Restore what was there before this plan; gives the paths, and none if the plan is not applied here.

    Raises:
        BuildError: E410, a file was changed since; E413, the journal is damaged; E409, the system refused.
    """
    with held_interrupts():
        for journal in _journals(root):
            if journal.plan == plan:
                _undo(root, journal)
                _remove_if_empty(root / JOURNAL)
                return tuple(entry.path for entry in journal.entries)
    return ()


def _prepare(root: Path, plan: Digest, files: Sequence[OverlayFile], plan_bytes: bytes) -> _Journal:
    """Write originals and new files beside each other; the last rename makes the journal exist."""
    folder = root / JOURNAL / plan.hex[:16]
    unfinished = folder.with_suffix(".new")
    unfinished.mkdir(parents=True)
    for number, file in enumerate(files):
        target = root / file.path
        if file.before is not None:
            original = target.read_bytes()
            assert Digest.of(original) == file.before, f"{file.path} changed while it was looked at"
            _write(unfinished / f"{number}.original", original, like=target)
        like = target if file.before is not None else None
        _write(unfinished / f"{number}.new", file.content, like=like)
    _write(unfinished / "plan.json", plan_bytes, like=None)
    journal = _Journal(
        folder=folder,
        phase="writing",
        plan=plan,
        entries=tuple(
            _Entry(path=file.path, before=file.before, after=file.after) for file in files
        ),
        folders=_missing_folders(root, files),
    )
    _write(unfinished / "state.json", _encode(journal), like=None)
    _sync(unfinished)
    unfinished.replace(folder)
    _sync(folder.parent)
    for made in journal.folders:
        (root / made).mkdir(mode=0o755)
    return journal


def _read_back(root: Path, files: Sequence[OverlayFile]) -> None:
    found = read_files(root, [file.path for file in files])
    for file in files:
        content = found[file.path]
        seen = None if content is None else Digest.of(content)
        complaint = (
            f"wanted {file.after}, found {seen}"
            if content is None or seen != file.after
            else syntax_complaint(file.path, content)
        )
        if complaint is not None:
            raise VerificationError(
                f"{root / file.path} was written, but read back it is something else: {complaint}",
                remedy="look for a failing disk, or another program that writes here; the graft was undone",
                code="E601",
            )


def _undo_after(root: Path, plan: Digest, failure: BaseException) -> str:
    """Undo, and say how that went; where it failed, the failure notes it."""
    try:
        _recover(root)
    except (OSError, GraftError) as second:
        failure.add_note(f"undoing {plan} failed as well: {second}")
        return "part of it stands"
    return "nothing was changed"


def _undo(root: Path, journal: _Journal) -> None:
    edited = _check_before_undoing(root, journal)
    try:
        if (
            journal.phase == "applied"
        ):  # a full disk may have no place to say so of what was never whole
            _set_phase(journal, "reverting")
        for number, entry in enumerate(journal.entries):
            if entry.before is None:
                (root / entry.path).unlink(missing_ok=True)
            elif entry.path in edited:
                (journal.folder / f"{number}.original").replace(root / entry.path)
            remove_bytecode(root, entry.path)
        for made in reversed(journal.folders):
            _remove_if_empty(root / made)
        _sync_folders(root, (entry.path for entry in journal.entries))
        gone = journal.folder.with_suffix(".gone")
        journal.folder.replace(gone)
        shutil.rmtree(gone)
    except OSError as failure:
        raise BuildError(
            f"the graft could not be taken back from {root}: {failure.strerror or failure}",
            remedy=_REMEDY_REPEAT,
            code="E409",
        ) from failure


def _check_before_undoing(root: Path, journal: _Journal) -> set[str]:
    """Give the paths whose originals are to be put back, or refuse before anything is touched."""
    found = read_files(root, [entry.path for entry in journal.entries])
    edited: set[str] = set()
    for number, entry in enumerate(journal.entries):
        content = found[entry.path]
        seen = None if content is None else Digest.of(content)
        if seen not in (entry.before, entry.after):
            raise BuildError(
                f"{root / entry.path} was changed after the graft: wanted {entry.after},"
                f" found {seen or 'no file'}; nothing was taken back",
                remedy="if another graft was applied on top, revert that one first; else put the file"
                f" back from {journal.folder} or install vLLM again",
                code="E410",
            )
        if entry.before is None or seen == entry.before:
            continue
        original = _read_or_none(journal.folder / f"{number}.original")
        if original is None or Digest.of(original) != entry.before:
            raise _damaged(journal.folder, f"the original of {entry.path} is not what it was")
        edited.add(entry.path)
    return edited


def _journals(root: Path) -> tuple[_Journal, ...]:
    return tuple(_decode(folder) for folder in _folders(root, ""))


def _folders(root: Path, *suffixes: str) -> list[Path]:
    place = root / JOURNAL
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(folder for folder in place.iterdir() if folder.suffix in suffixes)


def _encode(journal: _Journal) -> bytes:
    value = {
        "phase": journal.phase,
        "plan": str(journal.plan),
        "files": [
            {
                "path": entry.path,
                "before": str(entry.before) if entry.before else None,
                "after": str(entry.after),
            }
            for entry in journal.entries
        ],
        "folders": list(journal.folders),
    }
    return json.dumps(value, indent=1).encode() + b"\n"


def _decode(folder: Path) -> _Journal:
    try:
        value: Any = json.loads((folder / "state.json").read_bytes())
        for path in (*(entry["path"] for entry in value["files"]), *value["folders"]):
            refuse_unsafe(path)
        return _Journal(
            folder=folder,
            phase=value["phase"],
            plan=Digest.parse(value["plan"]),
            entries=tuple(
                _Entry(
                    path=entry["path"],
                    before=Digest.parse(entry["before"]) if entry["before"] else None,
                    after=Digest.parse(entry["after"]),
                )
                for entry in value["files"]
            ),
            folders=tuple(value["folders"]),
        )
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as failure:
        raise _damaged(folder, f"its state cannot be read: {failure}") from failure


def _damaged(folder: Path, why: str) -> BuildError:
    return BuildError(
        f"the journal {folder} is damaged: {why}",
        remedy="install vLLM again (pip install --force-reinstall --no-deps), and remove that folder",
        code="E413",
    )


def _set_phase(journal: _Journal, phase: Phase) -> None:
    changed = _Journal(
        folder=journal.folder,
        phase=phase,
        plan=journal.plan,
        entries=journal.entries,
        folders=journal.folders,
    )
    _write(journal.folder / "state.json.new", _encode(changed), like=None)
    (journal.folder / "state.json.new").replace(journal.folder / "state.json")
    _sync(journal.folder)


def _write(path: Path, content: bytes, *, like: Path | None) -> None:
    """Write and flush to the disk, with the mode and owner of another file if there is one."""
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    if like is None:
        path.chmod(0o644)
        return
    model = like.stat()
    with suppress(OSError):  # only root may give files away
        os.chown(path, model.st_uid, model.st_gid)
    path.chmod(stat.S_IMODE(model.st_mode))


def _missing_folders(root: Path, files: Sequence[OverlayFile]) -> tuple[str, ...]:
    missing: set[str] = set()
    for file in files:
        folder = (root / file.path).parent
        while not folder.exists():
            missing.add(folder.relative_to(root).as_posix())
            folder = folder.parent
    return tuple(sorted(missing))


def _sync_folders(root: Path, paths: Iterable[str]) -> None:
    for folder in {(root / path).parent for path in paths}:
        if folder.is_dir():
            _sync(folder)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
