# Which config classes of which donor load under which transformers, read and not run. It is the same judgement that a plan
# makes, over many pairs at once; what it says was held against the classes as they load (tests/vllm/test_configs.py).
"""The matrix of config classes and releases of transformers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vllm_graft.deps.environment import model_environment
from vllm_graft.deps.needs import PACKAGE, Need, needs_of_modules
from vllm_graft.deps.transformers_facts import TransformersFacts
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftedModule


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One donor's modules under one transformers."""

    donor: str
    """vLLM's version."""
    transformers: str
    lacks: tuple[str, ...]
    """Why they do not load, one reason each; empty where nothing stands against it."""
    untold: tuple[str, ...]
    """What nobody told of this release."""
    pinned: bool
    """Whether the donor's own pins allow this release."""

    @property
    def word(self) -> str:
        """Give ``ok``, the first reason, or ``not told``."""
        if self.lacks:
            return self.lacks[0]
        return "not told" if self.untold else "ok"


def config_matrix(
    donors: Iterable[Install], releases: Sequence[TransformersFacts], paths: Sequence[str]
) -> tuple[MatrixCell, ...]:
    """Judge modules of each donor under each release.

    Paths are those of vLLM's own files, such as ``vllm/transformers_utils/configs/qwen3_5.py``; a donor that has
    none of them gives no cells.
    Order: as the donors and the releases are given.
    """
    return tuple(
        _cell(donor, needs, release)
        for donor in donors
        if (needs := needs_of_files(donor, paths)) is not None
        for release in releases
    )


def needs_of_files(install: Install, paths: Sequence[str]) -> tuple[Need, ...] | None:
    """Give what files of an install need of transformers; None where it has none of them."""
    modules = [_module(install, path) for path in paths if path in install.files]
    return needs_of_modules(modules) if modules else None


def _module(install: Install, path: str) -> GraftedModule:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return GraftedModule(
        name=name,
        path=path,
        kind="donor",
        why="it is looked at",
        origin=name,
        text=install.files.read(path).decode("utf-8", "replace"),
    )


def _cell(donor: Install, needs: Sequence[Need], release: TransformersFacts) -> MatrixCell:
    answers = [(need, need.met_by(release)) for need in needs]
    demands = model_environment(donor).asking(PACKAGE)
    return MatrixCell(
        donor=donor.version,
        transformers=release.version,
        lacks=tuple(dict.fromkeys(need.lack(release) for need, told in answers if told is False)),
        untold=tuple(need.wanted for need, told in answers if told is None and need.kind != "call"),
        pinned=all(demand.allows(release.version) for demand in demands),
    )
