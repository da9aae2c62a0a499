# Where a built image goes: an engine, a file, a folder, or the files that Docker builds it from. What an engine then has is
# asked back before it is called done.
"""Put a built image in its place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vllm_graft.errors import BuildError, GraftError, RequestError, VerificationError
from vllm_graft.image.archive import Tag, archive_bytes, archive_pieces, image_documents
from vllm_graft.image.configuration import canonical_digest, encode_configuration
from vllm_graft.image.dockerfile import dockerfile_documents
from vllm_graft.image.engine import Engine
from vllm_graft.image.entries import is_kept
from vllm_graft.image.holdings import is_same
from vllm_graft.image.layer import LayerPlan
from vllm_graft.image.oci import Descriptor
from vllm_graft.run.clock import stamp
from vllm_graft.run.engine import (
    container_files,
    engine_at,
    find_image,
    give_back_name,
    give_name,
    load_image,
    take_name,
)
from vllm_graft.run.files import refuse_unwritable, write_for_user
from vllm_graft.run.folder import refuse_foreign, write_folder
from vllm_graft.run.image_files import Layout
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.stored_layers import stored_there
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.lock import GraftLock
from vllm_graft.values.node import Node, parse_machine
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.source import DockerSource, ImageSource, OciSource
from vllm_graft.workflows.image_layers import at_home


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """Everything about the new image, before anybody is told."""

    facts: ImageFacts
    layer: bytes | None
    """None: there is none."""
    planned: LayerPlan | None
    lock: GraftLock
    receipt: BuildReceipt
    source: ImageSource
    stored: tuple[Descriptor, ...]
    labels: Mapping[str, str]
    """Those of the inputs; not that of the result."""


def receipt_of(
    plan: GraftPlan,
    below: ImageFacts,
    facts: ImageFacts,
    planned: LayerPlan | None,
    layer: bytes | None,
) -> BuildReceipt:
    """Give what is to be told of an image before it is anywhere; ``below``: the image that it is built on."""
    return BuildReceipt(
        outcome="not written",
        form="docker",
        route=plan.route.chosen,
        tag=facts.reference,
        target=facts.reference,
        base=below.reference,
        platform=facts.platform,
        layer=facts.layers[-1] if layer is not None else None,
        layer_size=len(layer or b""),
        config=canonical_digest(facts),
        image_id=Digest.of(encode_configuration(facts, is_layered=layer is not None)),
        added=(),
        edited=(),
        removed=planned.gone if planned is not None else (),
        cleared=(),
        whole=False,
        wheels=plan.wheels if layer is not None else (),
    )


Put = Callable[[BuiltImage, Environment], BuildReceipt]


def destination(to: str, tag: Tag, *, force: bool) -> Put:
    """Give the function that puts the image in place; what could not be written is refused here already.

    Raises:
        RequestError: E213, E218.
    """
    form, colon, place = to.partition(":")
    engine, at, name = form.partition("@")
    if engine == "docker" and not colon and bool(at) == bool(name):
        named = parse_machine(name, to) if name else None
        return lambda built, environment: _put_there(
            built,
            tag,
            named if name else _node_of(built.source),
            force=force,
            variables=environment.variables,
        )
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
        f"not a place for an image: {to!r}",
        remedy="write --to docker, --to docker@NODE, --to archive:FILE, --to oci:DIR or --to dockerfile:DIR",
        code="E218",
    )


def _node_of(source: ImageSource) -> Node | None:
    """Give the machine whose engine has the base: what is built on it goes there."""
    return source.node if isinstance(source, DockerSource) else None


def _put_there(
    built: BuiltImage,
    tag: Tag,
    node: Node | None,
    *,
    force: bool,
    variables: Mapping[str, str],
) -> BuildReceipt:
    put = _put_in_engine_by_force if force else _put_in_engine
    with engine_at(node, variables) as engine:
        receipt = put(built, tag, engine, variables)
    return replace(receipt, target=f"{tag}@{node}") if node is not None else receipt


def _put_in_file(built: BuiltImage, tag: Tag, place: str) -> BuildReceipt:
    documents = image_documents(built.facts, built.layer, tag)
    write_for_user(place, archive_bytes(documents))
    return replace(built.receipt, outcome="written", form="archive", target=place)


def _put_in_folder(
    built: BuiltImage, tag: Tag, place: str, environment: Environment
) -> BuildReceipt:
    documents = image_documents(built.facts, built.layer, tag, stored=built.stored)
    copies: dict[str, str] = {}
    if isinstance(built.source, OciSource):
        layout = Layout(at_home(built.source.path, environment))
        copies = {
            f"blobs/sha256/{each.digest.hex}": layout.checked(each.digest) for each in built.stored
        }
    write_folder(place, documents, copies)
    return replace(built.receipt, outcome="written", form="oci", target=place, whole=bool(copies))


def _put_as_dockerfile(built: BuiltImage, place: str) -> BuildReceipt:
    if not isinstance(built.source, DockerSource):
        raise RequestError(
            f"a Dockerfile begins with the name of an image, and {built.source} is none",
            remedy="load the base into an engine and name it there: --base docker:IMAGE",
            code="E218",
        )
    base = replace(built.facts, reference=built.receipt.base)
    write_folder(
        place, dockerfile_documents(base, built.planned, built.labels, built.receipt.cleared)
    )
    return replace(built.receipt, outcome="written", form="dockerfile", target=place)


def _put_in_engine_by_force(
    built: BuiltImage, tag: Tag, engine: Engine, variables: Mapping[str, str]
) -> BuildReceipt:
    """Take a name that another image has; that one stays, under a dated name."""
    there = find_image(engine, str(tag), variables)
    if there is None or is_same(there, built.facts):
        return _put_in_engine(built, tag, engine, variables)
    kept = f"{tag.repository}:{tag.tag}-before-{stamp()}"
    give_name(engine, str(tag), kept, variables)
    try:
        take_name(engine, str(tag), variables)
        receipt = _put_in_engine(built, tag, engine, variables)
    except BaseException as error:
        with held_interrupts():
            try:
                give_back_name(engine, kept, str(tag), variables)
            except GraftError:
                if isinstance(error, GraftError):
                    again = f"{engine.name} tag {kept} {tag}"
                    error.remedy += f"; the image that was {tag} is there as {kept}: {again}"
        raise
    return replace(receipt, replaced=kept)


def _put_in_engine(
    built: BuiltImage, tag: Tag, engine: Engine, variables: Mapping[str, str]
) -> BuildReceipt:
    there = find_image(engine, str(tag), variables)
    receipt = replace(built.receipt, whole=True)
    if there is not None and is_same(there, built.facts):
        return replace(receipt, outcome="already there")
    if there is not None:
        raise BuildError(
            f"{tag} is an image already{f' on {engine.node}' if engine.node else ''}, with other content",
            remedy="give another name (-t; of `up` it is [image] tag); with --force this one takes the name, and the old"
            " image stays reachable under a dated one",
            code="E422",
        )
    below = len(built.facts.layers) - (built.layer is not None)
    lower = stored_there(engine, built.facts, below, variables)
    documents = image_documents(built.facts, built.layer, tag, stored=lower)
    try:
        load_image(engine, str(tag), archive_pieces(documents), variables)
        _refuse_other(engine, built, variables)
    except BaseException:
        with held_interrupts():
            take_name(engine, str(tag), variables)
        raise
    return replace(receipt, outcome="loaded")


def _refuse_other(engine: Engine, built: BuiltImage, variables: Mapping[str, str]) -> None:
    """Ask the engine back: the configuration that it has, and a file out of the layer.

    Raises:
        VerificationError: E602.
    """
    wanted = built.facts
    found = find_image(engine, wanted.reference, variables)
    if found is None or not is_same(found, wanted):
        said = "no such image" if found is None else str(canonical_digest(found))
        raise _other(engine, wanted, f"wanted {canonical_digest(wanted)}, found {said}")
    if built.planned is None:
        return
    # Of a wheel, only the metadata is kept when it is read.
    file = next(each for each in built.planned.files if is_kept(each.place.lstrip("/")))
    with container_files(engine, wanted, variables) as files:
        contents = [entry.content for entry in files.one(file.place)]
    if contents != [file.content]:
        raise _other(engine, wanted, f"{file.place} in it is not what was built")


def _other(engine: Engine, wanted: ImageFacts, why: str) -> VerificationError:
    return VerificationError(
        f"the image that {engine.said} has as {wanted.reference} is not what was built: {why}",
        remedy="the name was taken back; see the engine's version and log, and report it with both",
        code="E602",
    )
