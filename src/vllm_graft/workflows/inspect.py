"""Inspect: what is in an install, and whether it knows a model."""

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from vllm_graft.install.multi_node import read_multi_node
from vllm_graft.install.patches import find_patches
from vllm_graft.install.pins import OWN_NAMES, own_pins, read_pins
from vllm_graft.install.transformers_names import (
    AUTO_FILES,
    TransformersNames,
    parse_transformers,
)
from vllm_graft.install.tree import is_vllm_python
from vllm_graft.link.layout import read_layout
from vllm_graft.link.model_question import answer_model
from vllm_graft.link.tables import SourceTrees
from vllm_graft.run.directory import exists, read_file
from vllm_graft.values.inspection import Inspection, Pin
from vllm_graft.values.install import Install
from vllm_graft.values.model import ModelDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """What is asked beside the install itself."""

    architectures: tuple[str, ...] = ()
    model: ModelDescription | None = None


def inspect_install(install: Install, request: InspectRequest | None = None) -> Inspection:
    """Gather what is in an install; reads the names that its transformers knows from its folder.

    Raises:
        SourceError: there is no model registry in it, or a file of the layout is no valid Python.
    """
    request = request or InspectRequest()
    trees = SourceTrees(install.files)
    layout = read_layout(trees)
    pins = read_pins(install)
    model = None
    if request.architectures or request.model is not None:
        model = answer_model(
            layout,
            trees,
            architectures=request.architectures,
            model=request.model,
            transformers=transformers_of(install),
        )
    return Inspection(
        source=install.source,
        location=install.location,
        version=install.version,
        development=_is_development(install.version),
        layout=layout.generation,
        traits=tuple(sorted(layout.traits)),
        digest=install.digest,
        interpreter=install.interpreter,
        files=sum(map(is_vllm_python, install.files.paths())),
        extensions=install.native.extensions,
        operators=len(install.native.operators),
        distributions=len(install.distributions),
        own_pins=own_pins(pins),
        violated_pins=tuple(pin for pin in pins if pin.state == "violated" or _is_lack(pin)),
        pins_checked=sum(pin.state != "not told" for pin in pins),
        patches=find_patches(install),
        architectures=len(layout.by_architecture),
        architecture_names=tuple(sorted(layout.by_architecture)),
        multi_node=read_multi_node(install, pins),
        notes=install.notes,
        findings=layout.findings,
        model=model,
    )


def _is_lack(pin: Pin) -> bool:
    return pin.state == "missing" and pin.of in OWN_NAMES


def _is_development(version: str) -> bool:
    try:
        read = Version(version)
    except InvalidVersion:
        return True
    return read.is_prerelease or read.is_devrelease


def transformers_of(install: Install) -> TransformersNames | None:
    """Read the names that the transformers beside this vLLM knows; None where nothing tells."""
    version = next(
        (each.version for each in install.distributions if each.name == "transformers"), ""
    )
    if install.beside:
        texts = {
            path.rpartition("/")[2]: content.decode("utf-8", "replace")
            for path, content in install.beside.items()
            if path.startswith("transformers/models/auto/")
        }
        return parse_transformers(texts, version)
    for site in install.sites:
        folder = f"{site}/transformers/models/auto"
        if exists(f"{folder}/configuration_auto.py"):
            texts = {
                name: read_file(f"{folder}/{name}").decode("utf-8", "replace")
                for name in AUTO_FILES
                if exists(f"{folder}/{name}")
            }
            return parse_transformers(texts, version)
    return None
