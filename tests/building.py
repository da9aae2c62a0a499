"""A base image that a small plan fits, and the plan."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pretend
from imaging import SITE, Image, Item, files, folder, python
from opening import Opener
from plans import BASE_TREE, PlanParts
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.run.cache import Cache
from vllm_graft.run.console import Console
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.environment import Environment
from vllm_graft.values.plan import GraftPlan, PlanSource
from vllm_graft.values.source import (
    ArchiveSource,
    DockerSource,
    OciSource,
    RegistrySource,
    parse_source,
)
from vllm_graft.values.wheels import LockedWheel
from vllm_graft.workflows.build import BuildRequest, run_build
from vllm_graft.workflows.open_image import OpenedImage, open_image
from vllm_graft.workflows.place_wheels import PlacedWheels, place_wheels

SETTINGS: Mapping[str, object] = {
    "Entrypoint": ["/opt/start.sh", "--now"],
    "Cmd": ["serve"],
    "Env": ["PATH=/usr/bin:/bin", "NCCL_DEBUG=INFO", "ODD=a=b c"],
    "WorkingDir": "/workspace",
    "User": "1000:1000",
    "Labels": {"maintainer": "somebody"},
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 30000000000},
    "Shell": ["/bin/bash", "-c"],
    "StopSignal": "SIGINT",
    "ExposedPorts": {"8000/tcp": {}},
    "Volumes": {"/data": {}},
    "OnBuild": ["RUN true"],
}

MODELS = f"{SITE}/vllm/model_executor/models"
STALE = f"{MODELS}/__pycache__/registry.cpython-312.pyc"


def base_items() -> list[Item]:
    """vLLM as another user installed it, in folders with modes of their own, with bytecode."""
    owner = {"uid": 1000, "gid": 1001}
    above = SITE.split("/")
    return [
        *(folder("/".join(above[:count])) for count in range(1, len(above))),
        folder(SITE, 0o2775, **owner),
        folder(f"{SITE}/vllm", 0o750, **owner),
        folder(f"{SITE}/vllm/model_executor", 0o755, **owner),
        folder(MODELS, 0o770, **owner),
        folder(f"{MODELS}/__pycache__", 0o700, **owner),
        folder(f"{SITE}/vllm/transformers_utils", 0o755, **owner),
        folder(f"{SITE}/vllm/transformers_utils/configs", 0o755, **owner),
        folder("tmp", 0o1777),
        *python(),
        *files(SITE, BASE_TREE, mode=0o640, **owner),
        *files(SITE, pretend.dist_info("vllm", "0.14.1", BASE_TREE), **owner),
        Item(path=STALE, content=b"stale", uid=1000, gid=1001),
        Item(path=f"{MODELS}/__pycache__/registry.cpython-312.opt-1.pyc", content=b"stale"),
        Item(path=f"{MODELS}/__pycache__/llama.cpython-312.pyc", content=b"good"),
    ]


def base_image(**more: object) -> Image:
    settings = {**SETTINGS, **more}
    return Image.of(
        [Item(path="etc/motd", content=b"hello")],
        base_items(),
        settings={name: value for name, value in settings.items() if value is not None},
    )


@dataclass(kw_only=True)
class Bench:
    """A place to build in."""

    opener: Opener
    folder: Path
    count: int = 0
    path: str = field(default_factory=lambda: os.environ["PATH"])

    def plan(self, base: str, **changes: object) -> GraftPlan:
        install = self.opener.open(base)
        image = "" if install.image is None else str(canonical_digest(install.image))
        told = PlanSource(source=base, version=install.version, digest=install.digest, image=image)
        return replace(PlanParts().plan(), base=told, **changes)

    @property
    def environment(self) -> Environment:
        return Environment(
            variables={**self.opener.variables, "PATH": self.path},
            home=str(Path.home()),
            python=sys.executable,
        )

    @property
    def cache(self) -> Cache:
        return Cache.at(str(self.opener.cache), Console(stream=self.opener.stream))

    def image(self, source: str) -> OpenedImage:
        read = parse_source(source)
        assert isinstance(read, ArchiveSource | DockerSource | OciSource | RegistrySource)
        return open_image(read, platform=None, environment=self.environment, cache=self.cache)

    def place(
        self, wheels: Sequence[LockedWheel], source: str, *, contents: Sequence[bytes]
    ) -> PlacedWheels:
        """Put wheels into an image, of which the cache has these."""
        for content in contents:
            self.cache.put(content)
        read = parse_source(source)
        assert isinstance(read, ArchiveSource | DockerSource | OciSource | RegistrySource)
        return place_wheels(
            wheels,
            self.image(source),
            source=read,
            environment=self.environment,
            cache=self.cache,
        )

    def write(self, plan: GraftPlan) -> Path:
        self.count += 1
        place = self.folder / f"plan-{self.count}.json"
        place.write_bytes(encode_plan(plan))
        return place

    def build(self, plan: Path | GraftPlan, tag: str = "grafted", **more: Any) -> BuildReceipt:
        place = plan if isinstance(plan, Path) else self.write(plan)
        request = replace(BuildRequest(plan_file=str(place), tag=tag), **more)
        return run_build(
            request, environment=self.environment, console=Console(stream=self.opener.stream)
        )
