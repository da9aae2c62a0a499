# The public API: re-exported names and nothing else. Each is imported when it is first asked for, since the command line
# passes through here and `--help` must not wait for LibCST.
"""Serve a model that your vLLM image is too old for: graft its support from a newer vLLM.

Example:
    >>> from vllm_graft import parse_source, run_plan
    >>> str(parse_source("pypi:vllm==0.17.1"))
    'pypi:vllm==0.17.1'
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_graft.errors import (
        BuildError,
        GraftError,
        NodeError,
        RequestError,
        SourceError,
        VerificationError,
    )
    from vllm_graft.image.overlay import build_overlay, render_overlay_diff
    from vllm_graft.link.plan import LinkRequest, LinkSession
    from vllm_graft.values.build import BuildReceipt
    from vllm_graft.values.codec import decode_plan, encode_plan, plan_digest
    from vllm_graft.values.digest import Digest
    from vllm_graft.values.environment import Environment
    from vllm_graft.values.finding import Finding
    from vllm_graft.values.install import Install
    from vllm_graft.values.plan import GraftPlan
    from vllm_graft.values.plugin import PluginReceipt
    from vllm_graft.values.receipt import ApplyReceipt
    from vllm_graft.values.source import SourceOptions, parse_source
    from vllm_graft.workflows.apply import ApplyRequest, run_apply
    from vllm_graft.workflows.build import BuildRequest, run_build
    from vllm_graft.workflows.build_plugin import PluginRequest, run_build_plugin
    from vllm_graft.workflows.inspect import InspectRequest, inspect_install
    from vllm_graft.workflows.judge_pins import with_pins
    from vllm_graft.workflows.open_source import open_install
    from vllm_graft.workflows.plan import Planned, PlanRequest, run_plan

__all__ = [
    "ApplyReceipt",
    "ApplyRequest",
    "BuildError",
    "BuildReceipt",
    "BuildRequest",
    "Digest",
    "Environment",
    "Finding",
    "GraftError",
    "GraftPlan",
    "InspectRequest",
    "Install",
    "LinkRequest",
    "LinkSession",
    "NodeError",
    "PlanRequest",
    "Planned",
    "PluginReceipt",
    "PluginRequest",
    "RequestError",
    "SourceError",
    "SourceOptions",
    "VerificationError",
    "build_overlay",
    "decode_plan",
    "encode_plan",
    "inspect_install",
    "open_install",
    "parse_source",
    "plan_digest",
    "render_overlay_diff",
    "run_apply",
    "run_build",
    "run_build_plugin",
    "run_plan",
    "with_pins",
]

_HOMES = {
    "errors": (
        "BuildError",
        "GraftError",
        "NodeError",
        "RequestError",
        "SourceError",
        "VerificationError",
    ),
    "image.overlay": ("build_overlay", "render_overlay_diff"),
    "link.plan": ("LinkRequest", "LinkSession"),
    "values.build": ("BuildReceipt",),
    "values.codec": ("decode_plan", "encode_plan", "plan_digest"),
    "values.digest": ("Digest",),
    "values.environment": ("Environment",),
    "values.finding": ("Finding",),
    "values.install": ("Install",),
    "values.plan": ("GraftPlan",),
    "values.plugin": ("PluginReceipt",),
    "values.receipt": ("ApplyReceipt",),
    "values.source": ("SourceOptions", "parse_source"),
    "workflows.apply": ("ApplyRequest", "run_apply"),
    "workflows.build": ("BuildRequest", "run_build"),
    "workflows.build_plugin": ("PluginRequest", "run_build_plugin"),
    "workflows.inspect": ("InspectRequest", "inspect_install"),
    "workflows.judge_pins": ("with_pins",),
    "workflows.open_source": ("open_install",),
    "workflows.plan": ("PlanRequest", "Planned", "run_plan"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"vllm_graft.{home}"), name)
    raise AttributeError(f"module 'vllm_graft' has no attribute {name!r}")
