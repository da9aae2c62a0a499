# The plan as an image: the base in every respect, and one layer more. Everything is computed before anybody is told of it;
# where it then goes is place_image.py.
"""Build a grafted image."""

from dataclasses import dataclass, replace

from vllm_graft.errors import BuildError, RequestError
from vllm_graft.image.archive import Tag, parse_tag
from vllm_graft.image.configuration import canonical_digest, labelled
from vllm_graft.image.installed import side_path
from vllm_graft.image.layer import encode_layer, plan_layer, with_wheels
from vllm_graft.image.overlay import OverlayFile, build_overlay
from vllm_graft.image.provenance import LAYER_LABEL, PYTHONPATH_LABEL, provenance_labels
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.run.files import read_bytes, refuse_unwritable, write_for_user
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.lock import GraftLock, decode_lock, differences, encode_lock
from vllm_graft.values.plan import GraftPlan, PlanSource
from vllm_graft.values.source import (
    ArchiveSource,
    DockerSource,
    ImageSource,
    OciSource,
    RegistrySource,
    Source,
    parse_source,
)
from vllm_graft.workflows.apply import read_plan
from vllm_graft.workflows.below_graft import OpenedBase, open_base, refuse_lost
from vllm_graft.workflows.build_as_is import build_as_is
from vllm_graft.workflows.image_layers import OpenedImage
from vllm_graft.workflows.kept_image import keep_built
from vllm_graft.workflows.open_image import open_image
from vllm_graft.workflows.place_image import BuiltImage, destination, receipt_of
from vllm_graft.workflows.place_wheels import PlacedWheels, place_wheels


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What the user asks of ``build``."""

    plan_file: str
    tag: str
    base: str = ""
    """Where the base is now; empty: where the plan says."""
    donor: str = ""
    """Where the donor is now, for the routes that build on it; empty: where the plan says."""
    to: str = "docker"
    """``docker``, ``archive:FILE``, ``oci:DIR`` or ``dockerfile:DIR``."""
    lock: str = ""
    """A file to write; empty: none."""
    locked: str = ""
    """A file that this build must agree with; empty: none."""
    force: bool = False
    dry_run: bool = False


def run_build(request: BuildRequest, *, environment: Environment, console: Console) -> BuildReceipt:
    """Make the image and put it where it is asked for.

    Raises:
        RequestError: E210 to E218, the words, the plan or the lock.
        SourceError: the base cannot be read; E313 to E315, E318, a wheel of the plan cannot be had.
        BuildError: E401 blocked; E425, the route is none that can be built; E402, E405, E406, E420 another base; E404;
            E421 the engine did not take it; E422 the tag is taken; E423, E428 the base is grafted, and what lies below
            cannot be told or something would be lost; E424 the lock says otherwise; E430 to E432, a wheel cannot be put
            into the image.
        VerificationError: E602, what the engine has is not what was built.
    """
    plan = read_plan(request.plan_file)
    tag = parse_tag(request.tag)
    put = destination(request.to, tag, force=request.force)
    if request.lock:
        refuse_unwritable(request.lock)
    wanted = _read_lock(request.locked) if request.locked else None
    _refuse_by_hand(plan, request.plan_file)
    on_donor = plan.route.on_donor
    if plan.route.chosen == "graft" and plan.verdict == "blocked":
        raise BuildError(
            f"{request.plan_file} is blocked: it says itself that the graft cannot work",
            remedy="see its findings (`vllm-graft explain CODE`); another donor version may do."
            " There is no flag to build it all the same",
            code="E401",
        )
    source = _image_source(request, plan, on_donor=on_donor)
    cache = Cache.at(environment.cache_directory, console)
    if plan.route.chosen == "graft":
        base = open_base(
            source,
            platform=None,
            environment=environment,
            cache=cache,
            planned=None if plan.wheels else plan.base,
        )
        _refuse_lost(request, plan, base)
        _refuse_other(plan.base, base.opened, "base")
        placed = place_wheels(
            plan.wheels, base.opened, source=source, environment=environment, cache=cache
        )
        built = _build(plan, source, base.opened, placed, tag)
    else:
        opened = open_image(source, platform=None, environment=environment, cache=cache)
        _refuse_other(*((plan.donor, opened, "donor") if on_donor else (plan.base, opened, "base")))
        wanted_wheels = plan.wheels if plan.route.chosen == "donor+ray" else ()
        placed = place_wheels(
            wanted_wheels, opened, source=source, environment=environment, cache=cache
        )
        built = build_as_is(plan, source, opened, placed, tag)
    if wanted is not None and (changed := differences(wanted, built.lock)):
        shown = "".join(f"\n  {line}" for line in changed[:12])
        raise BuildError(
            f"this build is not what {request.locked} says:{shown}",
            remedy="build from the inputs that the lock names; or, if the change is meant, write the lock anew with --lock",
            code="E424",
        )
    receipt = built.receipt
    if not request.dry_run:
        receipt = put(built, environment)
        keep_built(built.facts, built.layer, cache)
        if request.lock:
            write_for_user(request.lock, encode_lock(built.lock))
    return receipt


def _read_lock(path: str) -> GraftLock:
    try:
        content = read_bytes(path)
    except OSError as failure:
        raise RequestError(
            f"{path} cannot be read: {failure.strerror}",
            remedy="give a file that `vllm-graft build --lock FILE` wrote",
            code="E213",
        ) from failure
    return decode_lock(content, where=path)


def _refuse_by_hand(plan: GraftPlan, plan_file: str) -> None:
    if plan.route.chosen != "rebuild":
        return
    rebuild = plan.route.candidate("rebuild")
    steps = "".join(f"\n  - {step}" for step in (rebuild.steps if rebuild else ()))
    raise BuildError(
        f"{plan_file} says that a new image has to be made by hand:{steps}",
        remedy="make it, then plan again with it as --base; `plan --route` takes another route where one is possible",
        code="E425",
    )


def _image_source(request: BuildRequest, plan: GraftPlan, *, on_donor: bool) -> ImageSource:
    told, role = (request.donor, "donor") if on_donor else (request.base, "base")
    source: Source = parse_source(told or (plan.donor if on_donor else plan.base).source)
    if isinstance(source, DockerSource | RegistrySource | OciSource | ArchiveSource):
        return source
    raise RequestError(
        f"the {role} of this plan is no image: {source}",
        remedy=f"say in which image the same vLLM is: --{role} docker:IMAGE. For a folder, `vllm-graft apply`",
        code="E218",
    )


def _refuse_lost(request: BuildRequest, plan: GraftPlan, base: OpenedBase) -> None:
    if base.earlier is None:
        return
    refuse_lost(plan, base.earlier)
    if request.to.startswith("dockerfile:"):
        raise RequestError(
            f"a Dockerfile begins with the name of its base, and {base.earlier.image} is grafted",
            remedy=f"name the image below: --base {base.earlier.base_source}",
            code="E218",
        )


def _refuse_other(planned: PlanSource, opened: OpenedImage, role: str) -> None:
    base, install = opened.facts, opened.install
    if install.digest != planned.digest:
        raise BuildError(
            f"the vLLM in {base.reference} is not the one that was planned for: wanted {planned.version},"
            f" {planned.digest}; found {install.version}, {install.digest}",
            remedy=f"plan again with --{role} {install.source}",
            code="E420",
        )


def _build(
    plan: GraftPlan, source: ImageSource, opened: OpenedImage, placed: PlacedWheels, tag: Tag
) -> BuiltImage:
    base, install = opened.facts, opened.install
    overlay = build_overlay(plan, install.files)
    planned = plan_layer(
        plan, overlay, opened.placement, bytecode=base.variables.get("PYTHONPYCACHEPREFIX", "")
    )
    planned = with_wheels(planned, placed.files, placed.surroundings)
    layer = encode_layer(planned)
    diff_id = Digest.of(layer)
    labels = provenance_labels(plan, canonical_digest(base), diff_id)
    if any(each.place == "side by side" for each in plan.wheels):
        labels[PYTHONPATH_LABEL] = side_path(base)
    facts = labelled(base, labels, str(tag), layer=diff_id)
    receipt = replace(
        receipt_of(plan, base, facts, planned, layer),
        added=tuple(file.path for file in overlay if file.before is None),
        edited=tuple(file.path for file in overlay if file.before is not None),
        python_path=labels.get(PYTHONPATH_LABEL, ""),
        notes=(*install.notes, *placed.notes, *_other_image(plan, install.image or base)),
    )
    return BuiltImage(
        facts=facts,
        layer=layer,
        planned=planned,
        lock=_lock(plan, base, overlay, receipt),
        receipt=receipt,
        source=source,
        stored=opened.stored,
        labels={name: text for name, text in labels.items() if name != LAYER_LABEL},
    )


def _other_image(plan: GraftPlan, base: ImageFacts) -> tuple[str, ...]:
    """Say that the base is not the very image that was planned for; that its vLLM is the same was seen."""
    found = str(canonical_digest(base))
    if plan.base.image in ("", found):
        return ()
    told = (
        f"{base.reference} is another image than the one that was planned for, with the same vLLM: planned for"
        f" {plan.base.image}, found {found}"
    )
    return (told,)


def _lock(
    plan: GraftPlan, base: ImageFacts, overlay: tuple[OverlayFile, ...], receipt: BuildReceipt
) -> GraftLock:
    inputs = {
        "plan": str(plan_digest(plan)),
        "route": plan.route.chosen,
        "base vllm": str(plan.base.digest),
        "base config": str(canonical_digest(base)),
        "donor vllm": str(plan.donor.digest),
        **{f"base layer {number}": str(each) for number, each in enumerate(base.layers, 1)},
        **{file.path: str(file.before or "") for file in overlay},
        **{f"wheel {each.file}": str(each.digest) for each in plan.wheels},
    }
    results = {
        "layer": str(receipt.layer),
        "config": str(receipt.config),
        **{file.path: str(file.after) for file in overlay},
    }
    names = {"base": plan.base.source, "donor": plan.donor.source}
    return GraftLock(inputs=inputs, results=results, names=names)
