# A plugin needs no image: only the base's files, which the plan was made for, and which say what can be registered.
"""Build a plugin of vLLM out of a plan."""

from dataclasses import dataclass, replace

from vllm_graft.errors import BuildError, RequestError
from vllm_graft.image.plugin import encode_plugin, make_plugin, plugin_package, supported_version
from vllm_graft.link.plugin_entries import Obstacle, plugin_parts
from vllm_graft.link.relocate import Relocation
from vllm_graft.run.console import Console
from vllm_graft.run.folder import refuse_foreign, write_folder
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.plugin import PluginReceipt
from vllm_graft.values.source import SourceOptions, parse_source
from vllm_graft.workflows.apply import read_plan
from vllm_graft.workflows.open_source import open_install

PREFIX = "plugin:"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRequest:
    """What the user asks of ``build --to plugin:DIR``."""

    plan_file: str
    place: str
    """The folder."""
    base: str = ""
    """Where the base is now, of any kind; empty: where the plan says."""
    options: SourceOptions = SourceOptions()  # noqa: RUF009 (a frozen value)
    dry_run: bool = False


def run_build_plugin(
    request: PluginRequest, *, environment: Environment, console: Console
) -> PluginReceipt:
    """Make the wheel, where every edit has an extension point.

    Raises:
        RequestError: E210 to E213, E218, the words or the plan.
        SourceError: the base cannot be read.
        BuildError: E401 blocked; E425, its route is no graft; E420 another base; E433 it is for an image; E450 there are edits that no plugin can stand for.
    """
    if not request.place:
        raise RequestError(
            "--to plugin: names no folder",
            remedy="write --to plugin:DIR; the wheel is written there",
            code="E218",
        )
    refuse_foreign(request.place)
    plan = read_plan(request.plan_file)
    if plan.route.chosen != "graft":
        raise BuildError(
            f"a plugin holds a graft, and the route of {request.plan_file} is {plan.route.chosen}",
            remedy="give another --to; or plan with --route graft, where that is possible",
            code="E425",
        )
    if plan.verdict == "blocked":
        raise BuildError(
            f"{request.plan_file} is blocked: it says itself that the graft cannot work",
            remedy="see its findings (`vllm-graft explain CODE`); another donor version may do",
            code="E401",
        )
    if plan.wheels:
        raise BuildError(
            f"{request.plan_file} also puts {', '.join(each.requirement for each in plan.wheels)} into an image, which a"
            " plugin cannot",
            remedy="build an image of it, or plan without --accept and install them with pip beside the plugin",
            code="E433",
        )
    source = parse_source(request.base or plan.base.source)
    install = open_install(
        source, options=request.options, environment=environment, console=console
    )
    if install.digest != plan.base.digest:
        raise BuildError(
            f"the vLLM of {source} is not the one that was planned for: wanted {plan.base.version},"
            f" {plan.base.digest}; found {install.version}, {install.digest}",
            remedy=f"plan again with --base {source}",
            code="E420",
        )
    parts = plugin_parts(plan, install.files)
    package = plugin_package(plan)
    relocation = Relocation(plan.modules, parts.exports, package)
    modules = [relocation(module) for module in plan.modules]
    unclear = [Obstacle(path="", what=each) for module in modules for each in module.unclear]
    if obstacles := (*parts.obstacles, *unclear):
        raise _no_plugin(plan, obstacles)
    moved = relocation.moved
    entries = [replace(each, module=moved.get(each.module, each.module)) for each in parts.entries]
    plugin = make_plugin(plan, modules, entries, package)
    content = encode_plugin(plugin)
    if not request.dry_run:
        write_folder(request.place, {plugin.file_name: content})
    return PluginReceipt(
        outcome="not written" if request.dry_run else "written",
        target=f"{request.place.rstrip('/')}/{plugin.file_name}",
        distribution=plugin.distribution,
        version=plugin.version,
        vllm=supported_version(plan),
        wheel=Digest.of(content),
        size=len(content),
        registers=tuple(each.name for each in entries),
        modules=tuple(each.name for each in modules),
        requires=plugin.requires,
    )


def _no_plugin(plan: GraftPlan, obstacles: tuple[Obstacle, ...]) -> BuildError:
    shown = "".join(
        f"\n  {each.path}: {each.what}" if each.path else f"\n  {each.what}"
        for each in dict.fromkeys(obstacles)
    )
    return BuildError(
        f"{', '.join(plan.architectures)} cannot be a plugin of vLLM {plan.base.version}:"
        f" vLLM has no extension point for{shown}",
        remedy="build an image (`vllm-graft build PLAN -t TAG`) or edit an install (`vllm-graft apply PLAN DIR`):"
        " both make these edits. A plan without --feature mtp needs fewer of them",
        code="E450",
    )
