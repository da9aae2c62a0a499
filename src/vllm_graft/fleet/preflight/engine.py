"""Whether the engine of a node will do, and whether its images are those that are meant."""

from collections.abc import Iterator, Sequence

from vllm_graft.errors import GraftError
from vllm_graft.fleet.preflight.wanted import ALL, Seen, Wanted
from vllm_graft.values.amount import size
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.node_facts import EngineFacts, ImagePresence


def judge_engine(node: Seen, error: GraftError | None) -> Iterator[NodeFinding]:
    """Say why no verb could use the engine (the code of that verb's error), or what it lacks (N108)."""
    if error is not None:
        yield node.finding(
            error.code,
            "blocked",
            ALL,
            wanted="a container engine that can be used",
            found=error.what,
            remedy=error.remedy,
        )
    told = node.facts.engine
    if isinstance(told, EngineFacts) and (
        told.program.startswith("/snap/") or told.root.startswith("/var/snap/")
    ):
        yield node.finding(
            "N108",
            "review",
            ("up",),
            wanted="an engine that sees the drivers of the machine",
            found=f"{told.name} from a snap ({told.root})",
            remedy="install Docker from its own packages (docs.docker.com/engine/install) and remove the snap",
        )


def judge_images(node: Seen, nodes: Sequence[Seen], wanted: Wanted) -> Iterator[NodeFinding]:
    """Say which image is not where it is read (N101), or is, or would be sent, for another kind of machine (N102)."""
    told = node.facts.engine
    if node.name == wanted.builder and wanted.base and isinstance(told, EngineFacts):
        present = node.facts.images.get(wanted.base)
        if present is None:
            yield node.finding(
                "N101",
                "blocked",
                ("build",),
                wanted=f"the base image {wanted.base}",
                found=f"{told.name} has no image of this name",
                remedy=f"`{told.name} image ls` there shows what it is called; else fetch it with {told.name} pull",
            )
    if not isinstance(told, EngineFacts) or not node.serves:
        return  # an image may be built where it does not run
    images = [*node.facts.images.values(), wanted.shipped(nodes)]
    by_platform = {each.platform: each for each in images if isinstance(each, ImagePresence)}
    for platform, image in by_platform.items():
        if platform.split("/")[1] != told.architecture:
            yield node.finding(
                "N102",
                "blocked",
                ("ship", "up"),
                wanted=f"an image for linux/{told.architecture}",
                found=f"{image.reference} is for {platform}",
                remedy="use an image that is made for this kind of machine",
            )


def judge_same_images(nodes: Sequence[Seen], wanted: Wanted) -> Iterator[NodeFinding]:
    """Say where one name is two images (N103), where an image is absent (N104), and where stores differ (N106, N107)."""
    for reference in wanted.references:
        yield from _same(nodes, reference, is_served=reference == wanted.image)
    yield from _absent(nodes, wanted)
    engines = [(node.name, node.facts.engine) for node in nodes]
    told = [(name, each) for name, each in engines if isinstance(each, EngineFacts)]
    stores = {name: f"{each.name} with {each.store}" for name, each in told}
    if len(set(stores.values())) > 1:
        yield NodeFinding(
            code="N106",
            severity="note",
            nodes=tuple(stores),
            stops=("ship",),
            wanted="one kind of store",
            found=_each(stores),
            remedy="nothing need be done: images are compared by content, since their IDs differ from store to store",
        )
    versions = {name: each.version for name, each in told if each.name == told[0][1].name}
    if len(set(versions.values())) > 1:
        yield NodeFinding(
            code="N107",
            severity="note",
            nodes=tuple(versions),
            stops=("ship", "up"),
            wanted="one version of the engine",
            found=_each(versions),
            remedy="update the older one when it suits",
        )


def _same(nodes: Sequence[Seen], reference: str, *, is_served: bool) -> Iterator[NodeFinding]:
    found = [(node.name, node.facts.images.get(reference)) for node in nodes]
    present = {name: each for name, each in found if isinstance(each, ImagePresence)}
    contents = {name: str(each.config)[:19] for name, each in present.items()}
    if len(set(contents.values())) > 1:
        yield NodeFinding(
            code="N103",
            severity="blocked" if is_served else "review",
            nodes=tuple(contents),
            stops=("ship", "up"),
            wanted=f"the same {reference} everywhere",
            found=_each(contents),
            remedy=f"send the one that is meant to the others: vllm-graft ship --force {reference}@NODE NODE…; --force, since"
            " a name that another image has is not taken"
            if is_served
            else "nothing need be done where this is what each node is to keep; what is built stands on that of one of them",
        )


def _absent(nodes: Sequence[Seen], wanted: Wanted) -> Iterator[NodeFinding]:
    shipped = wanted.shipped(nodes)
    if shipped is None:
        return
    for node in nodes:
        if (
            node.serves
            and isinstance(node.facts.engine, EngineFacts)
            and not node.held(shipped.layers)
        ):
            yield node.finding(
                "N104",
                "note",
                ("ship",),
                wanted=f"{shipped.reference} under any name, so that only what is new must be sent",
                found="no image of its engine has these layers",
                remedy=f"nothing need be done: `vllm-graft ship` sends all of it once ({size(shipped.size)})",
            )


def _each(told: dict[str, str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in told.items())
