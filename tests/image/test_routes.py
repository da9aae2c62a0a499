# The route first: which image serves the model with the least change, what each would lose, and each carried out.
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import imaging
import pretend
from building import STALE
from engines import Docker
from held import small_vllm, with_okapi
from imaging import SITE, Image, Item, files, python
from opening import Opener
from vllm_graft.errors import BuildError, RequestError
from vllm_graft.image.route_costs import gpus_of
from vllm_graft.report.build import render_build
from vllm_graft.report.ink import Ink
from vllm_graft.report.plan import render_nothing_to_do, render_plan
from vllm_graft.run.console import Console
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import decode_plan, encode_plan
from vllm_graft.values.environment import Environment
from vllm_graft.values.route import RouteDecision, RouteName
from vllm_graft.values.source import parse_source
from vllm_graft.workflows.apply import ApplyRequest, run_apply
from vllm_graft.workflows.ask_graft import ask_graft
from vllm_graft.workflows.build import BuildRequest, run_build
from vllm_graft.workflows.build_plugin import PluginRequest, run_build_plugin
from vllm_graft.workflows.explain import read_rules
from vllm_graft.workflows.judge_route import RouteWishes
from vllm_graft.workflows.plan import Planned, PlanOutputs, PlanRequest, run_plan, write_outputs

OKAPI = "OkapiForCausalLM"
NATIVE = {
    "vllm/engine/arg_utils.py": 'parser.add_argument("--nnodes")\nparser.add_argument("--node-rank")\n',
    "vllm/entrypoints/openai/cli_args.py": 'parser.add_argument("--headless")\n',
}
SCRIPT = Item(path="workspace/run-cluster-node.sh", content=b"#!/bin/bash\n", mode=0o755)
BASHRC = Item(
    path="root/.bashrc", content=b"# mine\nexport NCCL_IB_HCA=rocep1s0f1\nalias ll='ls -l'\n"
)


def fat_binary(*architectures: int) -> bytes:
    """The headers that nvcc writes, as they stand in published CUDA libraries; the code itself is left out."""
    entries = b"".join(
        b"\x02\x00\x01\x01"
        + (64).to_bytes(4, "little")
        + (24).to_bytes(8, "little")
        + bytes(12)
        + each.to_bytes(4, "little")
        + bytes(32)
        + b"compressed machine code "
        for each in architectures
    )
    head = b"\x50\xed\x55\xba\x01\x00\x10\x00" + len(entries).to_bytes(8, "little")
    return b"\x7fELF" + bytes(60) + head + entries + b"PyInit__C\0"


@dataclass(frozen=True, kw_only=True)
class Made:
    """An image with a small vLLM in it."""

    knows: bool = False
    native: bool = True
    gpus: Sequence[int] = ()
    ray: str = ""
    more: Sequence[Item] = ()
    installed: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    architecture: str = "arm64"
    blocked: bool = False
    """Whether the model in it needs an operator that is nowhere else."""

    @property
    def version(self) -> str:
        return "0.17.1" if self.knows else "0.14.1"

    def image(self) -> Image:
        tree = small_vllm()
        if self.knows:
            tree = with_okapi(tree)
        if self.blocked:
            path = "vllm/model_executor/models/okapi.py"
            tree[path] = (
                f"import torch\n{tree[path]}\n\ndef use(x):\n    return torch.ops._C.okapi_only(x)\n"
            )
        tree |= NATIVE if self.native else {}
        contents = {path: text.encode() for path, text in tree.items()}
        contents["vllm/version.py"] = f"__version__ = '{self.version}'\n".encode()
        if self.gpus:
            contents["vllm/_C.abi3.so"] = fat_binary(*self.gpus)
        beside = dict(self.installed) | ({"ray": self.ray} if self.ray else {})
        infos = {
            "vllm": (self.version, contents),
            **{name: (each, {}) for name, each in beside.items()},
        }
        for name, (version, recorded) in infos.items():
            contents = contents | pretend.dist_info(name, version, recorded)
        return Image.of(
            [Item(path="etc/motd", content=b"hello")],
            [*python(), *files(SITE, contents), Item(path=STALE, content=b"stale"), *self.more],
            settings={"Env": ["PATH=/usr/bin:/bin"], **self.settings},
            architecture=self.architecture,
        )


DONOR = Made(knows=True, settings={"Entrypoint": ["/opt/start.sh"], "Cmd": ["--help"]})
NODE = Made(
    ray="2.51.1",
    more=(SCRIPT, BASHRC),
    settings={
        "Env": ["PATH=/usr/bin:/bin", "NCCL_IB_HCA=rocep1s0f1", "NODE=1"],
        "WorkingDir": "/workspace",
    },
)


@dataclass(kw_only=True)
class Bench:
    """Plans and builds as the program does."""

    opener: Opener
    folder: Path
    count: int = 0

    @property
    def environment(self) -> Environment:
        return Environment(variables=self.opener.variables, home=str(Path.home()))

    def layout(self, made: Made) -> str:
        self.count += 1
        place = self.folder / f"image-{self.count}"
        return f"oci:{imaging.write_layout(place, made.image(), packed='gzip')}"

    def plan(self, base: str | Made, donor: str | Made, **more: Any) -> Planned:
        sources = [each if isinstance(each, str) else self.layout(each) for each in (base, donor)]
        wishes = more.pop("wishes", None)
        if wishes is None:
            wishes = RouteWishes(route=more.pop("route", None), nodes=more.pop("nodes", 0))
        request = PlanRequest(
            base=parse_source(sources[0]),
            donor=parse_source(sources[1]),
            architectures=(OKAPI,),
            wishes=wishes,
            **more,
        )
        return run_plan(
            request, environment=self.environment, console=Console(stream=self.opener.stream)
        )

    def written(self, planned: Planned) -> Path:
        self.count += 1
        place = self.folder / f"plan-{self.count}.json"
        write_outputs(planned, PlanOutputs(plan=str(place)))
        return place

    def build(self, planned: Planned, tag: str = "made", **more: Any) -> BuildReceipt:
        request = replace(BuildRequest(plan_file=str(self.written(planned)), tag=tag), **more)
        return run_build(
            request, environment=self.environment, console=Console(stream=self.opener.stream)
        )


@pytest.fixture
def bench(opener: Opener, tmp_path: Path) -> Bench:
    return Bench(opener=opener, folder=tmp_path)


def recommended(route: RouteDecision) -> dict[str, str]:
    return {each.nodes: each.route for each in route.recommended}


def why_not(route: RouteDecision, name: RouteName) -> str:
    found = route.candidate(name)
    assert found is not None
    assert found.serves == "nothing", found.reason
    return found.reason


# --- which one is recommended ---------------------------------------------------------------------------------------


def test_a_base_that_knows_the_model_stays_as_it_is(bench: Bench) -> None:
    planned = bench.plan(replace(NODE, knows=True), DONOR)
    assert planned.plan is None
    assert planned.is_served_by_base
    assert recommended(planned.route) == {"one node": "base-as-is", "several nodes": "base-as-is"}
    assert why_not(planned.route, "graft") == "the base has what was asked for already"


def test_the_donors_image_is_taken_where_nothing_is_lost(bench: Bench) -> None:
    planned = bench.plan(Made(gpus=(90, 121)), replace(DONOR, gpus=(90, 120, 121)))
    assert recommended(planned.route) == {"one node": "donor-as-is", "several nodes": "donor-as-is"}


def test_whoever_adds_a_node_to_a_deployment_has_the_same_image(bench: Bench) -> None:
    sources = bench.layout(NODE), bench.layout(DONOR)
    made = [
        bench.plan(*sources, wishes=RouteWishes.of_deployment(nodes)).written for nodes in (2, 3)
    ]
    assert made[0] == made[1] is not None
    assert RouteWishes.of_deployment(1).nodes == 1


@pytest.mark.network
def test_ray_is_added_where_only_ray_is_missing_for_several_nodes(bench: Bench) -> None:
    donor = replace(DONOR, native=False)
    planned = bench.plan(Made(ray="2.51.1", native=False), donor)
    assert recommended(planned.route) == {"one node": "donor-as-is", "several nodes": "donor+ray"}
    alone = planned.route.candidate("donor-as-is")
    assert alone is not None
    assert alone.serves == "one node"
    assert (
        bench.plan(Made(ray="2.51.1", native=False), donor, nodes=1).route.chosen == "donor-as-is"
    )


def test_what_serves_one_node_is_taken_where_nobody_wants_several(bench: Bench) -> None:
    base, donor = Made(native=False), replace(DONOR, native=False, architecture="amd64")
    planned = bench.plan(base, donor)
    assert recommended(planned.route) == {"one node": "graft", "several nodes": "rebuild"}
    assert planned.route.chosen == "graft"
    assert bench.plan(base, donor, nodes=2).route.chosen == "rebuild"
    assert planned.plan is not None
    text = render_plan(planned.plan, read_rules(), "text")
    assert text.startswith("Route: graft, recommended for one node; rebuild for several nodes\n")


def test_the_owners_image_is_kept_where_the_donors_would_lose_its_launcher_and_variables(
    bench: Bench,
) -> None:
    planned = bench.plan(NODE, DONOR)
    assert recommended(planned.route) == {"one node": "graft", "several nodes": "graft"}
    reasons = planned.route.recommended[0].reasons
    assert any(
        "/workspace/run-cluster-node.sh" in each and "NCCL_IB_HCA" in each for each in reasons
    )
    donor = planned.route.candidate("donor-as-is")
    assert donor is not None
    assert donor.serves == "several nodes"
    cost = donor.cost
    assert cost.launchers == ("/workspace/run-cluster-node.sh",)
    changes = {each.name: (each.base, each.instead) for each in cost.settings}
    assert changes == {
        "WorkingDir": ("/workspace", ""),
        "Env NCCL_IB_HCA": ("rocep1s0f1", ""),
        "Env NODE": ("1", ""),
        "/root/.bashrc NCCL_IB_HCA": ("rocep1s0f1", ""),
    }
    assert (cost.distributions[0].name, cost.distributions[0].base) == ("ray", "2.51.1")
    graft = planned.route.candidate("graft")
    assert graft is not None
    assert graft.cost.layer_bytes > 0


def test_a_new_image_is_advised_where_nothing_else_is_possible(bench: Bench) -> None:
    donor = replace(DONOR, blocked=True, architecture="amd64")
    planned = bench.plan(NODE, donor)
    assert planned.plan is not None
    assert planned.plan.verdict == "blocked"
    assert recommended(planned.route) == {"one node": "rebuild", "several nodes": "rebuild"}
    assert planned.fails(("blocked",))
    steps = planned.route.candidate("rebuild")
    assert steps is not None
    assert any("0.17.1" in each for each in steps.steps)
    assert any("ray==2.51.1" in each for each in steps.steps)
    with pytest.raises(BuildError, match="by hand") as told:
        bench.build(planned)
    assert told.value.code == "E425"


def test_a_graft_that_cannot_work_gives_way_to_the_donors_image(bench: Bench) -> None:
    planned = bench.plan(NODE, replace(DONOR, blocked=True))
    assert planned.route.chosen == "donor-as-is"
    assert planned.fails(("blocked",))  # nobody asked for it: a person should look
    asked = bench.plan(NODE, replace(DONOR, blocked=True), route="donor-as-is")
    assert not asked.fails(("blocked",))


# --- what speaks against a route ------------------------------------------------------------------------------------


def test_a_donor_for_another_machine_is_no_route(bench: Bench) -> None:
    planned = bench.plan(Made(), replace(DONOR, architecture="amd64"))
    assert (
        why_not(planned.route, "donor-as-is")
        == "the donor's image is for another platform than the base's"
    )
    assert planned.route.chosen == "graft"


def test_a_donor_without_code_for_the_owners_gpu_is_no_route(bench: Bench) -> None:
    planned = bench.plan(Made(gpus=(121,)), replace(DONOR, gpus=(80, 90, 120)))
    assert "sm_121" in why_not(planned.route, "donor-as-is")
    assert planned.route.chosen == "graft"


def test_a_donor_with_code_for_some_of_the_gpus_is_not_recommended(bench: Bench) -> None:
    planned = bench.plan(Made(gpus=(90, 121)), replace(DONOR, gpus=(90,)))
    donor = planned.route.candidate("donor-as-is")
    assert donor is not None
    assert [(each.name, each.instead) for each in donor.cost.native] == [("sm_121", "")]
    assert planned.route.chosen == "graft"


def test_a_build_for_cpus_is_said_to_tell_nothing(bench: Bench) -> None:
    donor = bench.plan(Made(), DONOR).route.candidate("donor-as-is")
    assert donor is not None
    assert [each.split("'")[0] for each in donor.cost.not_told] == ["the base", "the donor"]


def test_kernels_that_only_the_base_has_count(bench: Bench) -> None:
    planned = bench.plan(Made(installed={"flashinfer-python": "0.5.3"}), DONOR)
    assert planned.route.chosen == "graft"
    assert any("flashinfer-python 0.5.3" in each for each in planned.route.recommended[0].reasons)


@pytest.mark.parametrize("role", ["base", "donor"])
def test_a_folder_is_no_image(bench: Bench, role: str) -> None:
    made = {"base": Made(), "donor": DONOR}
    contents = {
        item.path.removeprefix(f"{SITE}/"): item.content
        for item in [
            *files(SITE, {path: text.encode() for path, text in small_vllm().items()}),
            *(
                files(SITE, {p: t.encode() for p, t in with_okapi(small_vllm()).items()})
                if role == "donor"
                else ()
            ),
        ]
    }
    place = pretend.write_tree(
        bench.folder / role, {**contents, **pretend.dist_info("vllm", made[role].version, {})}
    )
    sources = {each: bench.layout(image) for each, image in made.items()} | {role: f"path:{place}"}
    planned = bench.plan(sources["base"], sources["donor"])
    for name in ("donor-as-is", "donor+ray"):
        assert why_not(planned.route, name).startswith(f"the {role} is not an image: path:")
    assert planned.route.chosen == "graft"


def test_what_an_images_variables_say_of_gpus_is_believed_where_binaries_tell_nothing(
    bench: Bench,
) -> None:
    said = {"Env": ["PATH=/usr/bin", "TORCH_CUDA_ARCH_LIST=9.0 12.1a+PTX"]}
    gpus = gpus_of(bench.opener.open(bench.layout(Made(settings=said))))
    assert gpus.names == ("sm_90", "sm_121")
    assert gpus.where == "TORCH_CUDA_ARCH_LIST=9.0 12.1a+PTX"
    held = gpus_of(bench.opener.open(bench.layout(Made(settings=said, gpus=(100,)))))
    assert held.names == ("sm_100",)


# --- what the user says ---------------------------------------------------------------------------------------------


def test_a_route_may_be_chosen(bench: Bench) -> None:
    planned = bench.plan(NODE, DONOR, route="donor-as-is", nodes=2)
    assert (planned.route.chosen, planned.route.asked) == ("donor-as-is", True)
    assert recommended(planned.route) == {"several nodes": "graft"}


@pytest.mark.parametrize(
    ("base", "donor", "wish", "reason"),
    [
        (NODE, DONOR, {"route": "base-as-is"}, f"the base lacks architecture {OKAPI}"),
        (replace(NODE, knows=True), DONOR, {"route": "graft"}, "already"),
        (NODE, replace(DONOR, ray="2.51.1"), {"route": "donor+ray"}, "has Ray already"),
        (NODE, replace(DONOR, native=False), {"route": "donor-as-is", "nodes": 2}, "one node only"),
        (NODE, replace(DONOR, blocked=True), {"route": "graft"}, "2 obstacles"),
    ],
)
def test_a_route_that_is_not_possible_is_refused(
    bench: Bench, base: Made, donor: Made, wish: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(RequestError, match=reason) as told:
        bench.plan(base, donor, **wish)
    assert told.value.code == "E220"
    assert "possible:" in told.value.remedy


def test_the_plan_file_holds_the_route_and_is_read_back(bench: Bench) -> None:
    planned = bench.plan(NODE, DONOR)
    assert planned.plan is not None
    content = encode_plan(planned.plan)
    assert decode_plan(content, where="here") == planned.plan
    schema = json.loads((Path(__file__).parents[2] / "docs/plan.schema.json").read_text())
    jsonschema.validate(json.loads(content), schema)


def test_every_report_begins_with_the_route(bench: Bench) -> None:
    planned = bench.plan(NODE, DONOR)
    assert planned.plan is not None
    rules = read_rules()
    text = render_plan(planned.plan, rules, "text", Ink(width=100))
    assert text.startswith("Route: graft, recommended, for one node and for several\n")
    assert "scripts lost: /workspace/run-cluster-node.sh" in text
    assert text.index("donor-as-is") < text.index("Graft of")
    markdown = render_plan(planned.plan, rules, "markdown")
    assert markdown.startswith("# Route: graft, recommended")
    page = bench.folder / "report.html"
    write_outputs(planned, PlanOutputs(report=str(page)))
    told = page.read_text()
    assert told.index("<h2>Route</h2>") < told.index("<h2>Findings</h2>")


def test_where_the_base_has_it_the_receipt_says_so_and_its_json_fits_the_schema(
    bench: Bench,
) -> None:
    nothing = bench.plan(replace(NODE, knows=True), DONOR).nothing_to_do
    assert render_nothing_to_do(nothing, "text").startswith("Route: base-as-is")
    told = json.loads(render_nothing_to_do(nothing, "json"))
    schema = Path(__file__).parents[2] / "docs/nothing-to-do.schema.json"
    jsonschema.validate(told, json.loads(schema.read_text()))


# --- carried out ----------------------------------------------------------------------------------------------------


def test_the_donors_image_without_its_entrypoint(bench: Bench) -> None:
    planned = bench.plan(NODE, DONOR, route="donor-as-is")
    first, second = bench.folder / "one", bench.folder / "two"
    receipt = bench.build(planned, to=f"oci:{first}", lock=str(bench.folder / "lock"))
    again = bench.build(planned, to=f"oci:{second}", locked=str(bench.folder / "lock"))
    assert (receipt.layer, receipt.layer_size, receipt.cleared) == (None, 0, ("Cmd", "Entrypoint"))
    assert receipt.config == again.config
    assert receipt.image_id == again.image_id
    built = bench.opener.open(f"oci:{first}")
    assert built.image is not None
    assert "Entrypoint" not in built.image.settings
    assert built.image.layers == planned.donor.image.layers if planned.donor.image else False
    told = ask_graft(
        built, environment=bench.environment, console=Console(stream=bench.opener.stream)
    )
    assert told is not None
    assert (told.provenance.route, told.intact, told.base_now) == ("donor-as-is", True, "unchanged")
    text = render_build(receipt, "text")
    assert "layer    none" in text
    assert "cleared  Cmd, Entrypoint" in text


def test_a_lock_of_another_route_is_not_kept_silently(bench: Bench) -> None:
    planned = bench.plan(NODE, DONOR, route="donor-as-is")
    bench.build(planned, to=f"oci:{bench.folder / 'one'}", lock=str(bench.folder / "lock"))
    other = bench.plan(NODE, DONOR)
    with pytest.raises(BuildError, match="route: wanted donor-as-is, found graft"):
        bench.build(other, to=f"oci:{bench.folder / 'two'}", locked=str(bench.folder / "lock"))


def test_a_plugin_holds_nothing_but_a_graft(bench: Bench) -> None:
    plan = bench.written(bench.plan(NODE, DONOR, route="donor-as-is"))
    request = PluginRequest(plan_file=str(plan), place=str(bench.folder / "plugin"))
    with pytest.raises(BuildError, match="is donor-as-is"):
        run_build_plugin(
            request, environment=bench.environment, console=Console(stream=bench.opener.stream)
        )
    assert not (bench.folder / "plugin").exists()


def test_a_plan_of_another_route_is_written_into_no_folder(bench: Bench) -> None:
    plan = bench.written(bench.plan(NODE, DONOR, route="donor-as-is"))
    tree = {path: text.encode() for path, text in small_vllm().items()}
    place = pretend.write_tree(
        bench.folder / "tree", {**tree, **pretend.dist_info("vllm", "0.14.1", tree)}
    )
    request = ApplyRequest(plan_file=str(plan), directory=str(place))
    with pytest.raises(BuildError, match="is donor-as-is") as told:
        run_apply(
            request, environment=bench.environment, console=Console(stream=bench.opener.stream)
        )
    assert told.value.code == "E425"
    assert not (place / "vllm/model_executor/models/okapi.py").exists()


@pytest.mark.engine
def test_dockers_own_build_of_the_donors_image_clears_its_entrypoint(
    docker: Docker, bench: Bench
) -> None:
    names = [docker.load(each.image()) for each in (NODE, DONOR)]
    planned = bench.plan(*(f"docker:{name}" for name in names), route="donor-as-is")
    place = bench.folder / "context"
    bench.build(planned, docker.name(), to=f"dockerfile:{place}")
    assert "ADD" not in (place / "Dockerfile").read_text()
    tag = docker.name()
    docker.run("build", "--network", "none", "--tag", tag, str(place))
    (made,) = json.loads(docker.run("image", "inspect", tag))
    assert not made["Config"].get("Entrypoint")
    assert not made["Config"].get("Cmd")
    assert made["Config"]["Labels"]["vllm-graft.route"] == "donor-as-is"


def test_a_donor_that_changed_since_is_refused(bench: Bench) -> None:
    planned = bench.plan(NODE, DONOR, route="donor-as-is")
    other = bench.layout(replace(DONOR, native=False))
    with pytest.raises(BuildError, match="not the one that was planned for") as told:
        bench.build(planned, donor=other, to=f"oci:{bench.folder / 'one'}")
    assert told.value.code == "E420"
    assert told.value.remedy == f"plan again with --donor {other}"


@pytest.mark.network
def test_ray_comes_into_the_donors_image_as_wheels(bench: Bench) -> None:
    donor = replace(DONOR, native=False, architecture="arm64")
    planned = bench.plan(Made(ray="2.51.1", native=False), donor)
    assert planned.plan is not None
    assert planned.route.chosen == "donor+ray"
    found = {each.name: each for each in planned.plan.wheels}
    assert found["ray"].version == "2.51.1"
    assert "cp312" in found["ray"].file
    assert "aarch64" in found["ray"].file
    receipts = [bench.build(planned, to=f"oci:{bench.folder / name}") for name in ("one", "two")]
    assert receipts[0].layer is not None
    assert receipts[0].layer == receipts[1].layer
    assert receipts[0].config == receipts[1].config
    assert receipts[0].cleared == ("Cmd", "Entrypoint")
    made = bench.opener.open(f"oci:{bench.folder / 'one'}")
    versions = {each.name: each.version for each in made.distributions}
    assert (versions["vllm"], versions["ray"]) == ("0.17.1", "2.51.1")
    told = ask_graft(
        made, environment=bench.environment, console=Console(stream=bench.opener.stream)
    )
    assert told is not None
    assert (told.provenance.route, told.intact, told.base_now) == ("donor+ray", True, "unchanged")


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.parametrize("route", ["base-as-is", "donor-as-is", "donor+ray", "graft"])
def test_each_route_in_an_engine(docker: Docker, bench: Bench, route: RouteName) -> None:
    base, donor = replace(NODE, knows=route == "base-as-is"), DONOR
    names = [docker.load(each.image()) for each in (base, donor)]
    planned = bench.plan(*(f"docker:{name}" for name in names), route=route)
    tag = docker.name()
    receipt = bench.build(planned, tag)
    assert (receipt.outcome, receipt.route) == ("loaded", route)
    assert bench.build(planned, tag).outcome == "already there"
    (made,) = json.loads(docker.run("image", "inspect", tag))
    below = names[1] if route.startswith("donor") else names[0]
    (before,) = json.loads(docker.run("image", "inspect", below))
    layers = made["RootFS"]["Layers"]
    assert layers[: len(before["RootFS"]["Layers"])] == before["RootFS"]["Layers"]
    assert len(layers) - len(before["RootFS"]["Layers"]) == (route in {"donor+ray", "graft"})
    kept = ("WorkingDir", "Env", "User")
    assert [made["Config"].get(name) for name in kept] == [
        before["Config"].get(name) for name in kept
    ]
    assert not made["Config"].get("Entrypoint")
    assert made["Config"]["Labels"]["vllm-graft.route"] == route
    inspected = bench.opener.open(f"docker:{tag}")
    told = ask_graft(
        inspected, environment=bench.environment, console=Console(stream=bench.opener.stream)
    )
    assert told is not None
    assert (told.provenance.route, told.intact, told.base_now) == (route, True, "unchanged")


@pytest.mark.engine
def test_an_engine_is_asked_for_scripts_in_the_working_directory_alone(
    docker: Docker, bench: Bench
) -> None:
    more = (SCRIPT, BASHRC, Item(path="workspace/deep/other.sh"), Item(path="opt/tool.sh"))
    name = docker.load(replace(NODE, more=more).image())
    around = bench.opener.open(f"docker:{name}").owner_files
    assert around is not None
    assert around.scripts == ("/workspace/run-cluster-node.sh",)
    assert around.exports == {"NCCL_IB_HCA": "rocep1s0f1"}
    layout = bench.opener.open(bench.layout(replace(NODE, more=more))).owner_files
    assert layout == around
