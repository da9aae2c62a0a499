# Where the image is, and the three ways in which its bytes can be had: what was kept when it was built; else the engine's
# `docker save`, filtered where the image is, or, where there is no Python, here; else, for a node that has nothing of it, as
# the engine gives it.
"""The image that is shipped."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.resources import files

from vllm_graft.fleet.ship import LACKING, Held, not_given
from vllm_graft.image.archive import Tag, names_of, stand_in
from vllm_graft.image.configuration import encode_configuration
from vllm_graft.image.engine import (
    Engine,
    ask_history,
    parse_history,
    save_image,
)
from vllm_graft.image.holdings import lacking_size
from vllm_graft.image.inside_archive import LAYER, Described, blob, naming_documents
from vllm_graft.image.program import as_program
from vllm_graft.image.stored import as_described
from vllm_graft.run.cache import Cache
from vllm_graft.run.engine import engine_at, inspect_image
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import run_command
from vllm_graft.run.stored_layers import stored_there
from vllm_graft.values.command import Command
from vllm_graft.values.digest import Digest
from vllm_graft.values.image import ImageFacts
from vllm_graft.workflows.kept_image import KeptImage, find_kept

_ASKING = timedelta(minutes=2)
_MUCH = 256 << 20
"""Bytes of an image from which on its store is asked what its files are."""
_MODULES = ("vllm_graft.image.inside_archive", "vllm_graft.image.inside_save")
_CALL = """
import json, os
from vllm_graft.image.inside_save import main
os._exit(main(json.loads(sys.argv[1]), sys.stdout.buffer))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What nodes are sent that have the same of an image."""

    held: Held
    layers: tuple[Digest, ...]
    """Diff ids of those that are sent."""
    size: int
    """Bytes of them; 0: not known."""
    sender: Machine
    kept: Mapping[str, bytes] | None = None
    """The files of the archive, where they are at hand here; else it is ``produced``."""
    produced: "Saving | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What makes the archive on the sender."""

    save: Command
    """The engine's own command, as it is run where the program below runs."""
    request: Mapping[str, object]
    python: str
    """Empty: the engine's own archive is passed on as it is."""

    def __call__(self, rate: int) -> Command:
        """Give the command; ``rate``: of the link, as for ``packed``."""
        if not self.python:
            return self.save
        program = as_program({name: _source(name) for name in _MODULES}, _CALL)
        request = json.dumps({**self.request, "rate": rate})
        told = self.save.inner or self.save.argv
        return replace(
            self.save,
            argv=(self.python, "-I", "-S", "-c", program, request),
            inner=(*told, "| (without the layers that are there)"),
            node="",
            marker=b"",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipSource:
    """The image, and the machine whose engine has it."""

    machine: Machine
    here: Machine
    engine: Engine
    facts: ImageFacts
    tag: Tag
    history: tuple[int, ...]
    kept: KeptImage | None
    python: str
    """On the machine that has it; empty: it has none that will do."""

    @property
    def size(self) -> int:
        """Give the bytes of all layers."""
        return sum(self.history)

    def lacking(self, held: int) -> int:
        """Give the bytes of the layers above the lowest ``held``; 0: not known."""
        return lacking_size(self.history, len(self.facts.layers), held)

    @property
    def least_from_here(self) -> int:
        """Give the bytes that a node which lacks anything is sent from this machine at least; 0: not known, or not from here."""
        if self.kept is not None:
            return len(self.kept.layer)
        return self.lacking(len(self.facts.layers) - 1) if self.machine.node is None else 0

    def payload(self, held: Held) -> Payload:
        """Give what a node is sent that has this of the image."""
        layers = self.facts.layers[held.layers :]
        if not layers:
            return self._by_name(held)
        if self.kept is not None and len(layers) == 1:
            return self._kept(self.kept, held)
        saving, sender = self._saving(held)
        return Payload(
            held=held,
            layers=layers,
            size=self.lacking(held.layers),
            sender=sender,
            produced=saving,
        )

    def _standing(self, held: Held) -> list[Described]:
        if held.stored:
            return [as_described(each) for each in held.stored]
        return [stand_in(each) for each in self.facts.layers[: held.layers]]

    def _by_name(self, held: Held) -> Payload:
        """Give an archive without a layer: a configuration and a name for what is there."""
        config = encode_configuration(self.facts, is_layered=False)
        documents = naming_documents(config, self._standing(held), names_of(self.tag))
        return Payload(
            held=held, layers=(), size=_total(documents), sender=self.here, kept=documents
        )

    def _kept(self, kept: KeptImage, held: Held) -> Payload:
        # Its digest was compared when it was taken out of the cache.
        digest = str(self.facts.layers[-1])
        own: Described = {"mediaType": LAYER, "digest": digest, "size": len(kept.layer)}
        layers = [*self._standing(held), own]
        documents = {
            **naming_documents(kept.config, layers, names_of(self.tag)),
            blob(digest): kept.layer,
        }
        return Payload(
            held=held,
            layers=self.facts.layers[-1:],
            size=_total(documents),
            sender=self.here,
            kept=documents,
        )

    def _saving(self, held: Held) -> tuple[Saving, Machine]:
        own = save_image(replace(self.engine, over=None), str(self.tag))
        request: dict[str, object] = {
            "diff_ids": [str(each) for each in self.facts.layers],
            "held": held.layers,
            "lower": [as_described(each) for each in held.stored],
            "names": names_of(self.tag),
            "table": self._table(held),
            "marker": "",
            "save": own.argv,
        }
        if self.python or (held.layers == 0 and self.machine.node is not None):
            return Saving(save=own, request=request, python=self.python), self.machine
        # The bytes come by here in any case, so that they are looked at here.
        there = self.machine.command(own)
        request |= {"save": there.argv, "marker": there.marker.decode()}
        return Saving(save=there, request=request, python=sys.executable), self.here

    def _table(self, held: Held) -> Mapping[str, str]:
        """Give the files that a store will give, with the diff ids of the layers that they are; nothing where those are their names.

        The store's answer costs a second; a reading of the whole image for nothing costs one for each 100 MB.
        """
        layers, variables = self.facts.layers, self.machine.variables
        if not held.layers or self.size < _MUCH:
            return {}
        stored = stored_there(self.engine, self.facts, len(layers), variables)
        return {blob(str(at.digest)): str(it) for at, it in zip(stored, layers, strict=False)}


def open_ship_source(
    machine: Machine, here: Machine, reference: str, tag: Tag, cache: Cache
) -> ShipSource:
    """Ask the engine of a machine for the image.

    Raises:
        SourceError: E330 to E334.
        NodeError: E500 to E507.
    """
    variables = machine.variables
    with engine_at(machine.node, variables) as engine:
        facts = inspect_image(engine, reference, variables)
        if not facts.layers:
            raise not_given(LACKING, "it does not say which layers it has", machine.name, str(tag))
        history = parse_history(run_command(ask_history(engine, reference), variables=variables))
    return ShipSource(
        machine=machine,
        here=here,
        engine=engine,
        facts=replace(facts, reference=str(tag)),
        tag=tag,
        history=history,
        kept=find_kept(facts, cache),
        python=_python(machine),
    )


def _python(machine: Machine) -> str:
    if machine.node is None:
        return sys.executable
    asks = Command(
        argv=(
            "python3",
            "-I",
            "-S",
            "-c",
            "import json, sys, tarfile, zlib; sys.exit(sys.version_info < (3, 9))",
        ),
        why="see whether the image can be read out of its engine there, layer by layer",
        timeout=_ASKING,
    )
    return "python3" if machine.run(asks).passed else ""


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (files(package) / f"{name}.py").read_text(encoding="utf-8")


def _total(documents: Mapping[str, bytes]) -> int:
    return sum(map(len, documents.values()))
