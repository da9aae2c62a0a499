# From a plan to the files that it puts into a base. Pure: a directory install, an image layer and the diff for
# reading are renderings of what stands here. A plan may come from anywhere, so its paths are not believed.
"""The overlay: the files that a plan adds or edits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from vllm_graft.errors import BuildError
from vllm_graft.link.syntax import parse_source_text
from vllm_graft.link.unified import apply_diff, render_diff
from vllm_graft.values.digest import Digest
from vllm_graft.values.install import Files
from vllm_graft.values.plan import GraftPlan

JOURNAL = "vllm/.vllm-graft"
"""Folder in a grafted tree that remembers what was there before; no plan may write into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file as the plan wants it."""

    path: str
    before: Digest | None
    """None: the base has nothing at this path."""
    after: Digest
    change: str
    """The whole text where ``before`` is None, else the unified diff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayFile:
    """One file as it will be."""

    path: str
    before: Digest | None
    content: bytes

    @property
    def after(self) -> Digest:
        """Digest the content."""
        return Digest.of(self.content)


def planned_files(plan: GraftPlan) -> tuple[PlannedFile, ...]:
    """Give each file that the plan writes, in path order.

    Raises:
        BuildError: E403, a path leaves ``vllm/``, stands twice or runs through another file.
    """
    added = [
        PlannedFile(
            path=module.path,
            before=None,
            after=Digest.of(module.text.encode()),
            change=module.text,
        )
        for module in plan.modules
    ]
    edited = [
        PlannedFile(path=edit.path, before=edit.before, after=edit.after, change=edit.diff)
        for edit in plan.edits
    ]
    files = sorted((*added, *edited), key=lambda file: file.path)
    paths = [file.path for file in files]
    for path in paths:
        refuse_unsafe(path)
        if paths.count(path) > 1:
            raise _unsafe(path, "stands twice in the plan")
        above = {str(parent) for parent in PurePosixPath(path).parents}
        if above.intersection(paths):
            raise _unsafe(path, "runs through another file of the plan")
    return tuple(files)


def build_file(planned: PlannedFile, before: bytes) -> OverlayFile:
    """Give the content of one file; ``before`` is what the base has, of which the digest is known to hold.

    Raises:
        BuildError: E408, the plan contradicts itself: its diff does not apply, does not give the digest that
            it promises, or gives no Python.
    """
    try:
        content = (
            planned.change
            if planned.before is None
            else apply_diff(before.decode(), planned.change)
        ).encode()
    except ValueError as failure:
        raise _contradiction(planned.path, f"its diff does not apply: {failure}") from failure
    if Digest.of(content) != planned.after:
        raise _contradiction(
            planned.path, f"wanted {planned.after} after the edit, found {Digest.of(content)}"
        )
    if (complaint := syntax_complaint(planned.path, content)) is not None:
        raise _contradiction(planned.path, complaint)
    return OverlayFile(path=planned.path, before=planned.before, content=content)


def build_overlay(plan: GraftPlan, base: Files) -> tuple[OverlayFile, ...]:
    """Give every file of the overlay, in path order.

    Raises:
        BuildError: E403 and E408 as above; E405 or E406 where the base is not the planned one.
    """
    files: list[OverlayFile] = []
    for planned in planned_files(plan):
        found = base.read(planned.path) if planned.path in base else None
        refuse_other(planned, found)
        files.append(build_file(planned, found or b""))
    return tuple(files)


def refuse_other(planned: PlannedFile, found: bytes | None) -> None:
    """Refuse a file that is neither what the plan expects before nor what it promises after.

    Raises:
        BuildError: E405 for an edited file, E406 for an added one.
    """
    seen = None if found is None else Digest.of(found)
    if seen in (planned.before, planned.after):
        return
    if planned.before is None:
        raise BuildError(
            f"{planned.path} exists already, with other content:"
            f" wanted no file there, or {planned.after}; found {seen}",
            remedy="plan again with this install as --base: then what it has is taken into account",
            code="E406",
        )
    raise BuildError(
        f"{planned.path} is not the file that was planned for:"
        f" wanted {planned.before}, found {seen or 'no file'}",
        remedy="plan again with this install as --base; if another graft was applied here,"
        " revert that one first",
        code="E405",
    )


def render_overlay_diff(plan: GraftPlan) -> str:
    """Give the whole overlay as one unified diff in path order; ``git apply`` and ``patch -p1`` take it."""
    return "".join(
        render_diff(planned.path, None, planned.change)
        if planned.before is None
        else planned.change
        for planned in planned_files(plan)
    )


def syntax_complaint(path: str, content: bytes) -> str | None:
    """Say why this is no Python; None where it is, or where the path is no Python file."""
    if not path.endswith(".py"):
        return None
    try:
        parse_source_text(content, path)
    except (SyntaxError, ValueError, RecursionError) as failure:
        return f"it is no valid Python: {failure}"
    return None


def refuse_unsafe(path: str) -> None:
    """Refuse a path that a graft may not write.

    Raises:
        BuildError: E403.
    """
    parts: Sequence[str] = path.split("/")
    if path.startswith("/"):
        raise _unsafe(path, "is absolute")
    if any(part in ("", ".", "..") for part in parts):
        raise _unsafe(path, "has an empty, '.' or '..' step")
    if any(character in path for character in "\\\0\n:"):
        raise _unsafe(path, "has a character that no path of vLLM has")
    if parts[0] != "vllm" or len(parts) == 1:
        raise _unsafe(path, "does not lie in vllm/")
    if parts[1] == PurePosixPath(JOURNAL).name:
        raise _unsafe(path, "lies in the folder that remembers the originals")


def _unsafe(path: str, why: str) -> BuildError:
    return BuildError(
        f"the plan wants to write {path!r}, which {why}",
        remedy="do not apply this plan; make it again with `vllm-graft plan`",
        code="E403",
    )


def _contradiction(path: str, why: str) -> BuildError:
    return BuildError(
        f"the plan contradicts itself about {path}: {why}",
        remedy="make the plan again; a plan is not to be edited by hand",
        code="E408",
    )
