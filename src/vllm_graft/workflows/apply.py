# The verb that writes. Everything is decided before the first byte is written: which install this is, what each
# file is now, what each will be. Only then does run/journal.py act.
"""Apply a plan to a directory install, or take it back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from vllm_graft.errors import BuildError, RequestError
from vllm_graft.image.overlay import PlannedFile, build_file, planned_files, refuse_other
from vllm_graft.run.console import Console
from vllm_graft.run.files import read_bytes
from vllm_graft.run.journal import (
    applied_plans,
    recover,
    revert,
    unfinished_plans,
    write_overlay,
)
from vllm_graft.run.tree import Folder, one_at_a_time, read_files, refuse_read_only, resolved_folder
from vllm_graft.values.codec import decode_plan, encode_plan, plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.receipt import ApplyReceipt
from vllm_graft.values.source import PathSource
from vllm_graft.workflows.open_source import open_install


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """What the user asks of ``apply``."""

    plan_file: str
    directory: str
    """A site-packages, a virtual environment or a checkout."""
    revert: bool = False
    dry_run: bool = False


def read_plan(path: str) -> GraftPlan:
    """Read a plan file.

    Raises:
        RequestError: E213 it cannot be read; E210 to E212 it is no plan.
    """
    try:
        content = read_bytes(path)
    except OSError as failure:
        raise RequestError(
            f"{path} cannot be read: {failure.strerror}",
            remedy="give a plan.json as written by `vllm-graft plan -o plan.json`",
            code="E213",
        ) from failure
    return decode_plan(content, where=path)


def run_apply(request: ApplyRequest, *, environment: Environment, console: Console) -> ApplyReceipt:
    """Do what is asked, all or nothing.

    Raises:
        RequestError: the plan file is none.
        SourceError: the directory holds no vLLM, or several.
        BuildError: E401 to E413, E425, E433; the tree is as it was.
        VerificationError: E601; likewise.
    """
    plan = read_plan(request.plan_file)
    planned_files(plan)  # refuses paths that leave the tree before anything is opened
    source = PathSource(path=request.directory)
    install = open_install(source, environment=environment, console=console)
    root = resolved_folder(install.location)
    _refuse_elsewhere(request.directory, root)
    with one_at_a_time(root):
        if request.revert:
            return _take_back(request, plan, root)
        if plan.verdict == "blocked":
            raise BuildError(
                f"{request.plan_file} is blocked: it says itself that the graft cannot work",
                remedy="see its findings (`vllm-graft explain CODE`); another donor version may do."
                " There is no flag to apply it all the same",
                code="E401",
            )
        _refuse_other_route(request, plan)
        if plan.wheels:
            raise BuildError(
                f"{request.plan_file} also puts {', '.join(each.requirement for each in plan.wheels)} into an image, and"
                f" {request.directory} is a folder",
                remedy="build an image of it (`vllm-graft build`), or plan without --accept and change the folder's"
                " environment with its own pip",
                code="E433",
            )
        _refuse_other_base(plan, install)
        recovered = unfinished_plans(root) if request.dry_run else recover(root)
        if recovered and not request.dry_run:
            install = open_install(source, environment=environment, console=console)
        receipt = _put_in(request, plan, root)
        same = receipt.outcome == "already applied" or install.digest == plan.base.digest
        return replace(receipt, recovered=recovered, same_base=same)


def _refuse_other_route(request: ApplyRequest, plan: GraftPlan) -> None:
    if plan.route.chosen != "graft":
        raise BuildError(
            f"apply writes a graft, and the route of {request.plan_file} is {plan.route.chosen}",
            remedy="see `vllm-graft build` for that route; or plan with --route graft, where that is possible",
            code="E425",
        )


def _put_in(request: ApplyRequest, plan: GraftPlan, root: Folder) -> ApplyReceipt:
    planned = planned_files(plan)
    receipt = ApplyReceipt(
        outcome="already applied", dry_run=request.dry_run, root=str(root), plan=plan_digest(plan)
    )
    found = read_files(root, [file.path for file in planned])
    if all(_is_done(file, found) for file in planned):
        return receipt
    for file in planned:
        refuse_other(file, found[file.path])
    if receipt.plan in applied_plans(root) and not request.dry_run:
        # Some files are as before: vLLM was installed again over the graft. Begin from the base.
        revert(root, receipt.plan)
        found = read_files(root, [file.path for file in planned])
    # What is there already was not put there by us, and is not taken away by --revert.
    files = [
        build_file(file, found[file.path] or b"") for file in planned if not _is_done(file, found)
    ]
    refuse_read_only(root, [file.path for file in files])
    if not request.dry_run:
        write_overlay(root, receipt.plan, files, encode_plan(plan))
    return replace(
        receipt,
        outcome="applied",
        added=tuple(file.path for file in files if file.before is None),
        edited=tuple(file.path for file in files if file.before is not None),
    )


def _take_back(request: ApplyRequest, plan: GraftPlan, root: Folder) -> ApplyReceipt:
    planned = planned_files(plan)
    digest = plan_digest(plan)
    is_here = digest in (*applied_plans(root), *unfinished_plans(root))
    recovered = unfinished_plans(root)
    if not request.dry_run:
        refuse_read_only(root, [file.path for file in planned])
        recover(root)
        revert(root, digest)
    return ApplyReceipt(
        outcome="reverted" if is_here else "nothing to revert",
        dry_run=request.dry_run,
        root=str(root),
        plan=digest,
        added=tuple(file.path for file in planned if is_here and file.before is None),
        edited=tuple(file.path for file in planned if is_here and file.before is not None),
        recovered=recovered,
    )


def _is_done(file: PlannedFile, found: Mapping[str, bytes | None]) -> bool:
    content = found[file.path]
    return content is not None and Digest.of(content) == file.after


def _refuse_elsewhere(directory: str, root: Folder) -> None:
    """Write only below the folder that the user named: an editable install or a link may lead anywhere."""
    named = resolved_folder(directory)
    if root.is_relative_to(named):
        return
    raise BuildError(
        f"the vLLM of {directory} lies elsewhere, in {root}: it is linked, or an editable install",
        remedy=f"if that is where the graft is to be written, name it: vllm-graft apply PLAN {root}",
        code="E404",
    )


def _refuse_other_base(plan: GraftPlan, install: Install) -> None:
    """Compare versions without their local parts; the edited files' digests say the rest."""
    if _public(install.version) == _public(plan.base.version):
        return
    raise BuildError(
        f"this plan is for another base: wanted vLLM {plan.base.version},"
        f" found {install.version} in {install.location}",
        remedy=f"plan again with --base path:{install.location}",
        code="E402",
    )


def _public(version: str) -> str:
    try:
        return Version(version).public
    except InvalidVersion:
        return version
