"""Asking containerd's store how it names the layers of an image."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vllm_graft.errors import SourceError
from vllm_graft.fleet.probes.engine import engine_probe
from vllm_graft.image.archive import archive_pieces
from vllm_graft.image.engine import (
    Engine,
    ask_images,
    list_images,
    load_archive,
    parse_inspections,
    save_image,
)
from vllm_graft.image.holdings import held_layers
from vllm_graft.image.oci import (
    Descriptor,
    candidate_of_manifest,
    parse_configuration,
    parse_descriptor,
)
from vllm_graft.image.stored import (
    ask_descriptor,
    parse_pointer,
    parse_saved,
    question,
    sizes_of,
)
from vllm_graft.run.engine import take_name
from vllm_graft.run.interrupts import held_interrupts
from vllm_graft.run.process import run_command, run_fed
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts


def images_of(engine: Engine, variables: Mapping[str, str]) -> tuple[ImageFacts, ...]:
    """Give all images of an engine; what is not understood, or gone since, is left out."""
    listed = run_command(list_images(engine), variables=variables)
    ids = tuple(dict.fromkeys(listed.stdout.decode("utf-8", "replace").split()))
    if not ids:
        return ()
    return parse_inspections(run_command(ask_images(engine, ids), variables=variables))


def has_containerd_store(engine: Engine, variables: Mapping[str, str]) -> bool:
    """Tell whether images lie in containerd's store; also where it is not told, it is taken for another."""
    if engine.name != "docker":
        return False
    probe = engine_probe(engine)
    asked = engine.command(
        *probe.argv[len((*engine.before, engine.program)) :], why=f"see {probe.asks}"
    )
    found = probe.answer(run_command(asked, variables=variables))
    return getattr(found, "is_containerd_store", False)


def stored_below(
    engine: Engine, wanted: ImageFacts, there: Iterable[ImageFacts], variables: Mapping[str, str]
) -> tuple[Descriptor, ...]:
    """Give the lowest layers of an image as containerd's store has them, as many as it has; nothing where it does not tell.

    ``there``: the images of the engine.
    """
    images = sorted(there, key=lambda image: -held_layers(wanted, [image]))
    for image in images:
        held = held_layers(wanted, [image])
        if not held:
            break
        if found := _Store(engine, variables).layers(image):
            return found[:held]
    return ()


def stored_there(
    engine: Engine, wanted: ImageFacts, count: int, variables: Mapping[str, str]
) -> tuple[Descriptor, ...]:
    """Give the lowest ``count`` layers as the engine's store has them; nothing where their diff ids will do."""
    if not count or not has_containerd_store(engine, variables):
        return ()
    stored = stored_below(engine, wanted, images_of(engine, variables), variables)
    return stored[:count] if len(stored) >= count else ()


_STORE = "containerd's store"


@dataclass(slots=True)
class _Store:
    engine: Engine
    variables: Mapping[str, str]
    sizes: dict[Digest, int] = field(default_factory=dict[Digest, int])
    asked: dict[Digest, bytes] = field(default_factory=dict[Digest, bytes])

    def layers(self, image: ImageFacts) -> tuple[Descriptor, ...]:
        command = ask_descriptor(self.engine, image.reference)
        told = parse_pointer(run_command(command, variables=self.variables).stdout)
        if told is None:
            return ()
        digest, self.sizes[digest] = told
        for manifest in self.manifests(digest, image.architecture):
            # It has not all of it, or does not give it: then it is another one.
            with contextlib.suppress(SourceError, KeyError, ValueError):
                found = candidate_of_manifest(self.content(manifest), _STORE)
                if found is not None and len(found.stored) == len(image.layers):
                    config = self.content(Digest.parse(found.config))
                    facts = parse_configuration(config, reference="", where=_STORE)
                    if facts.layers == image.layers:
                        return found.stored
        return ()

    def manifests(self, digest: Digest, architecture: str) -> tuple[Digest, ...]:
        """Give the manifests that a name may lead to: it leads to one, or to an index of several."""
        with contextlib.suppress(KeyError, ValueError):
            told = json.loads(self.content(digest))
            pointers = [parse_descriptor(each, _STORE) for each in told.get("manifests", ())]
            fitting = (each for each in pointers if architecture in each.platform.split("/"))
            return tuple(each.digest for each in fitting) or (digest,)
        return ()

    def content(self, digest: Digest) -> bytes:
        """Give content that the store has.

        Raises:
            KeyError: it is not given.
        """
        if digest in self.asked:
            return self.asked[digest]
        name, documents = question(digest, self.sizes[digest])
        try:
            load = load_archive(self.engine, name)
            run_fed(load, archive_pieces(documents), variables=self.variables)
            saved = run_command(save_image(self.engine, name), variables=self.variables)
        finally:
            with held_interrupts():
                take_name(self.engine, name, self.variables)
        content = parse_saved(saved.stdout, digest)
        if content is None:
            raise KeyError(digest)
        if content.startswith(b"{"):
            self.sizes |= sizes_of(content)
        self.asked[digest] = content
        return content
