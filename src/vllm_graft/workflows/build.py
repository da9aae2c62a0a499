# The plan as an image: the base in every respect, and one layer more. Everything is computed before the engine is told
# anything; what it then has is asked back before it is called done.
"""Build a grafted image."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vllm_graft.errors import BuildError, RequestError, VerificationError
from vllm_graft.image.archive import (
    Tag,
    archive_bytes,
    archive_pieces,
    image_documents,
    parse_tag,
)
from vllm_graft.image.configuration import canonical_digest, encode_configuration, grafted
from vllm_graft.image.dockerfile import dockerfile_documents
from vllm_graft.image.engine import Engine
from vllm_graft.image.layer import LayerPlan, encode_layer, plan_layer
from vllm_graft.image.oci import Descriptor
from vllm_graft.image.overlay import OverlayFile, build_overlay
from vllm_graft.image.provenance import LAYER_LABEL, provenance_labels, read_provenance
from vllm_graft.run.cache import Cache
from vllm_graft.run.clock import stamp
from vllm_graft.run.console import Console
from vllm_graft.run.engine import (
    container_files,
    find_engine,
    find_image,
    give_name,
    load_image,
    take_name,
)
from vllm_graft.run.files import read_bytes, refuse_unwritable, write_for_user
from vllm_graft.run.folder import refuse_foreign, write_folder
from vllm_graft.run.image_files import Layout
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.lock import GraftLock, decode_lock, differences, encode_lock
from vllm_graft.values.plan import GraftPlan
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
from vllm_graft.workflows.open_image import OpenedImage, at_home, open_image


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What the user asks of ``build``."""

    plan_file: str
    tag: str
    base: str = ""
    """Where the base is now; empty: where the plan says."""
    to: str = "docker"
    """``docker``, ``archive:FILE``, ``oci:DIR`` or ``dockerfile:DIR``."""
    lock: str = ""
    """A file to write; empty: none."""
    locked: str = ""
    """A file that this build must agree with; empty: none."""
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """Everything about the new image, before anybody is told."""

    facts: ImageFacts
    layer: bytes
    planned: LayerPlan
    lock: GraftLock
    receipt: BuildReceipt
    source: ImageSource
    stored: tuple[Descriptor, ...]
    labels: Mapping[str, str]
    """Those of the inputs; not that of the result."""


def run_build(request: BuildRequest, *, environment: Environment, console: Console) -> BuildReceipt:
    """Make the image and put it where it is asked for.

    Raises:
        RequestError: E210 to E218, the words, the plan or the lock.
        SourceError: the base cannot be read.
        BuildError: E401 blocked; E402, E405, E406, E420 another base; E404; E421 the engine did not take it; E422 the tag
            is taken; E423 the base is grafted already; E424 the lock says otherwise.
        VerificationError: E602, what the engine has is not what was built.
    """
    plan = read_plan(request.plan_file)
    tag = parse_tag(request.tag)
    put = _destination(request, tag)
    if request.lock:
        refuse_unwritable(request.lock)
    wanted = _read_lock(request.locked) if request.locked else None
    if plan.verdict == "blocked":
        raise BuildError(
            f"{request.plan_file} is blocked: it says itself that the graft cannot work",
            remedy="see its findings (`vllm-graft explain CODE`); another donor version may do."
            " There is no flag to build it all the same",
            code="E401",
        )
    source = _base_source(request.base, plan)
    cache = Cache.at(environment.cache_directory, console)
    opened = open_image(source, platform=None, environment=environment, cache=cache)
    built = _build(plan, source, opened, tag)
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


def _base_source(told: str, plan: GraftPlan) -> ImageSource:
    source: Source = parse_source(told or plan.base.source)
    if isinstance(source, DockerSource | RegistrySource | OciSource | ArchiveSource):
        return source
    raise RequestError(
        f"the base of this plan is no image: {source}",
        remedy="say in which image the same vLLM is: --base docker:IMAGE. For a folder, `vllm-graft apply`",
        code="E218",
    )


def _build(plan: GraftPlan, source: ImageSource, opened: OpenedImage, tag: Tag) -> _Built:
    base, install = opened.facts, opened.install
    if (before := read_provenance(base)) is not None:
        raise BuildError(
            f"{base.reference} is grafted already (plan {before.plan[:19]}, from {before.base_source})",
            remedy=f"plan all architectures at once onto its base: --base {before.base_source}"
            f" --arch {' --arch '.join((*before.architectures, *plan.architectures))}",
            code="E423",
        )
    if install.digest != plan.base.digest:
        raise BuildError(
            f"the vLLM in {base.reference} is not the one that was planned for: wanted {plan.base.version},"
            f" {plan.base.digest}; found {install.version}, {install.digest}",
            remedy=f"plan again with --base {install.source}",
            code="E420",
        )
    overlay = build_overlay(plan, install.files)
    planned = plan_layer(
        plan, overlay, opened.placement, bytecode=base.variables.get("PYTHONPYCACHEPREFIX", "")
    )
    layer = encode_layer(planned)
    diff_id = Digest.of(layer)
    labels = provenance_labels(plan, canonical_digest(base), diff_id)
    facts = grafted(base, diff_id, labels, str(tag))
    receipt = BuildReceipt(
        outcome="not written",
        form="docker",
        tag=str(tag),
        target=str(tag),
        base=base.reference,
        platform=facts.platform,
        layer=diff_id,
        layer_size=len(layer),
        config=canonical_digest(facts),
        image_id=Digest.of(encode_configuration(facts)),
        added=tuple(file.path for file in overlay if file.before is None),
        edited=tuple(file.path for file in overlay if file.before is not None),
        removed=planned.gone,
        whole=False,
        notes=install.notes,
    )
    return _Built(
        facts=facts,
        layer=layer,
        planned=planned,
        lock=_lock(plan, base, overlay, receipt),
        receipt=receipt,
        source=source,
        stored=opened.stored,
        labels={name: text for name, text in labels.items() if name != LAYER_LABEL},
    )


def _lock(
    plan: GraftPlan, base: ImageFacts, overlay: tuple[OverlayFile, ...], receipt: BuildReceipt
) -> GraftLock:
    inputs = {
        "plan": str(plan_digest(plan)),
        "base vllm": str(plan.base.digest),
        "base config": str(canonical_digest(base)),
        "donor vllm": str(plan.donor.digest),
        **{f"base layer {number}": str(each) for number, each in enumerate(base.layers, 1)},
        **{file.path: str(file.before or "") for file in overlay},
    }
    results = {
        "layer": str(receipt.layer),
        "config": str(receipt.config),
        **{file.path: str(file.after) for file in overlay},
    }
    names = {"base": plan.base.source, "donor": plan.donor.source}
    return GraftLock(inputs=inputs, results=results, names=names)


# --- where it goes ----------------------------------------------------------------------------------------------------

_Put = Callable[[_Built, Environment], BuildReceipt]


def _destination(request: BuildRequest, tag: Tag) -> _Put:
    """Give the function that puts the image in place; what could not be written is refused here already.

    Raises:
        RequestError: E213, E218.
    """
    form, colon, place = request.to.partition(":")
    if form == "docker" and not colon:
        put = _put_in_engine_by_force if request.force else _put_in_engine
        return lambda built, environment: put(built, tag, environment.variables)
    if form == "archive" and place:
        refuse_unwritable(place)
        return lambda built, _: _put_in_file(built, tag, place)
    if form == "oci" and place:
        refuse_foreign(place)
        return lambda built, environment: _put_in_folder(built, tag, place, environment)
    if form == "dockerfile" and place:
        refuse_foreign(place)
        return lambda built, _: _put_as_dockerfile(built, place)
    raise RequestError(
        f"not a place for an image: {request.to!r}",
        remedy="write --to docker, --to archive:FILE, --to oci:DIR or --to dockerfile:DIR",
        code="E218",
    )


def _put_in_file(built: _Built, tag: Tag, place: str) -> BuildReceipt:
    documents = image_documents(built.facts, built.layer, tag)
    write_for_user(place, archive_bytes(documents))
    return replace(built.receipt, outcome="written", form="archive", target=place)


def _put_in_folder(built: _Built, tag: Tag, place: str, environment: Environment) -> BuildReceipt:
    documents = image_documents(built.facts, built.layer, tag, stored=built.stored)
    copies: dict[str, str] = {}
    if isinstance(built.source, OciSource):
        layout = Layout(at_home(built.source.path, environment))
        copies = {
            f"blobs/sha256/{each.digest.hex}": layout.path(each.digest) for each in built.stored
        }
    write_folder(place, documents, copies)
    return replace(built.receipt, outcome="written", form="oci", target=place, whole=bool(copies))


def _put_as_dockerfile(built: _Built, place: str) -> BuildReceipt:
    if not isinstance(built.source, DockerSource):
        raise RequestError(
            f"a Dockerfile begins with the name of an image, and {built.source} is none",
            remedy="load the base into an engine and name it there: --base docker:IMAGE",
            code="E218",
        )
    base = replace(built.facts, reference=built.receipt.base)
    write_folder(place, dockerfile_documents(base, built.planned, built.labels))
    return replace(built.receipt, outcome="written", form="dockerfile", target=place)


def _put_in_engine_by_force(built: _Built, tag: Tag, variables: Mapping[str, str]) -> BuildReceipt:
    """Take a name that another image has; that one stays, under a dated name."""
    engine = find_engine(variables)
    there = find_image(engine, str(tag), variables)
    if there is None or _is_same(there, built.facts):
        return _put_in_engine(built, tag, variables)
    kept = f"{tag.repository}:{tag.tag}-before-{stamp()}"
    give_name(engine, str(tag), kept, variables)
    try:
        take_name(engine, str(tag), variables)
        receipt = _put_in_engine(built, tag, variables)
    except BaseException:
        with held_interrupts():
            give_name(engine, kept, str(tag), variables)
            take_name(engine, kept, variables)
        raise
    return replace(receipt, replaced=kept)


def _put_in_engine(built: _Built, tag: Tag, variables: Mapping[str, str]) -> BuildReceipt:
    engine = find_engine(variables)
    there = find_image(engine, str(tag), variables)
    receipt = replace(built.receipt, whole=True)
    if there is not None and _is_same(there, built.facts):
        return replace(receipt, outcome="already there")
    if there is not None:
        raise BuildError(
            f"{tag} is an image already, with other content",
            remedy="give another name with -t; with --force this one takes the name, and the old image stays"
            " reachable under a dated one",
            code="E422",
        )
    documents = image_documents(built.facts, built.layer, tag)
    try:
        load_image(engine, str(tag), archive_pieces(documents), variables)
        _refuse_other(engine, built, variables)
    except BaseException:
        with held_interrupts():
            take_name(engine, str(tag), variables)
        raise
    return replace(receipt, outcome="loaded")


def _is_same(there: ImageFacts, wanted: ImageFacts) -> bool:
    return there.layers == wanted.layers and canonical_digest(there) == canonical_digest(wanted)


def _refuse_other(engine: Engine, built: _Built, variables: Mapping[str, str]) -> None:
    """Ask the engine back: the configuration that it has, and a file out of the layer.

    Raises:
        VerificationError: E602.
    """
    wanted = built.facts
    found = find_image(engine, wanted.reference, variables)
    if found is None or not _is_same(found, wanted):
        said = "no such image" if found is None else str(canonical_digest(found))
        raise _other(engine, wanted, f"wanted {canonical_digest(wanted)}, found {said}")
    file = next(each for each in built.planned.files if each.place.endswith(".py"))
    with container_files(engine, wanted, variables) as files:
        contents = [entry.content for entry in files.one(file.place)]
    if contents != [file.content]:
        raise _other(engine, wanted, f"{file.place} in it is not what was built")


def _other(engine: Engine, wanted: ImageFacts, why: str) -> VerificationError:
    return VerificationError(
        f"the image that {engine.name} has as {wanted.reference} is not what was built: {why}",
        remedy="the name was taken back; see the engine's version and log, and report it with both",
        code="E602",
    )
