# Several models, one graft: what is planned onto a grafted image is planned onto its base, together with what it has.
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import imaging
import pretend
from building import STALE
from engines import Docker
from held import SPECULATIVE, small_vllm, with_okapi
from imaging import SITE, Image, Item, files, folder, python
from opening import Opener, opener_at
from vllm_graft.errors import BuildError, GraftError, RequestError, SourceError
from vllm_graft.image.configuration import canonical_digest
from vllm_graft.report.ink import Ink
from vllm_graft.report.inspection import render_inspection
from vllm_graft.run.console import Console
from vllm_graft.values.build import BuildReceipt
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.inspection import GraftAnswer
from vllm_graft.values.source import parse_source
from vllm_graft.workflows.ask_graft import ask_graft
from vllm_graft.workflows.build import BuildRequest, run_build
from vllm_graft.workflows.inspect import inspect_install
from vllm_graft.workflows.plan import Planned, PlanRequest, run_plan

OKAPI, QUAGGA = "OkapiForCausalLM", "QuaggaForCausalLM"
PARSER = "reasoning-parser=okapi"


def donor_tree(version: str = "0.17.1") -> dict[str, bytes]:
    """A later release with two families more."""
    files = with_okapi(small_vllm())
    parsers = "vllm/reasoning/__init__.py"
    entry = '    "okapi": ("okapi_reasoning_parser", "OkapiReasoningParser"),\n}'
    files[parsers] = files[parsers].replace("}", entry)
    files["vllm/reasoning/okapi_reasoning_parser.py"] = "class OkapiReasoningParser:\n    new = 1\n"
    renamed = {
        path.replace("okapi", "quagga"): text.replace("okapi", "quagga").replace("Okapi", "Quagga")
        for path, text in files.items()
        if "okapi" in path
    }
    both = {**files, **renamed}
    for path, text in both.items():
        if path not in renamed and "okapi" not in path and "kapi" in text:
            lines = text.splitlines(keepends=True)
            both[path] = "".join(
                line + (line.replace("okapi", "quagga").replace("Okapi", "Quagga"))
                if "kapi" in line
                else line
                for line in lines
            )
    return {**encoded(both), "vllm/version.py": f"__version__ = '{version}'\n".encode()}


def encoded(texts: dict[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in texts.items()}


def base_image(**more: object) -> Image:
    tree = {**encoded(small_vllm()), "vllm/version.py": b"__version__ = '0.14.1'\n"}
    models = f"{SITE}/vllm/model_executor/models"
    settings = {"Cmd": ["serve"], "Env": ["PATH=/usr/bin:/bin"], "Labels": {"by": "us"}, **more}
    return Image.of(
        [Item(path="etc/motd", content=b"hello")],
        [
            *python(),
            *files(SITE, {**tree, **pretend.dist_info("vllm", "0.14.1", tree)}),
            folder(f"{models}/__pycache__", 0o700, 5),
            Item(path=STALE, content=b"stale"),
        ],
        settings={name: value for name, value in settings.items() if value is not None},
    )


@dataclass(kw_only=True)
class Bench:
    """Plans and builds with the program's own workflows."""

    opener: Opener
    folder: Path
    count: int = 0
    donors: dict[str, str] = field(default_factory=dict)

    def donor(self, tree: dict[str, bytes] | None = None, version: str = "0.17.1") -> str:
        if version not in self.donors:
            place = self.folder / f"donor-{version}"
            tree = donor_tree(version) if tree is None else tree
            pretend.write_tree(place, {**tree, **pretend.dist_info("vllm", version, tree)})
            self.donors[version] = f"path:{place}"
        return self.donors[version]

    @property
    def environment(self) -> Environment:
        return Environment(
            variables=self.opener.variables, home=str(Path.home()), python=sys.executable
        )

    @property
    def console(self) -> Console:
        return Console(stream=self.opener.stream)

    def planned(self, base: str, *architectures: str, donor: str = "", **more: Any) -> Planned:
        request = PlanRequest(
            base=parse_source(base),
            donor=parse_source(donor or self.donor()),
            architectures=architectures,
            **more,
        )
        return run_plan(request, environment=self.environment, console=self.console)

    def plan(self, base: str, *architectures: str, donor: str = "", **more: Any) -> Path:
        planned = self.planned(base, *architectures, donor=donor, **more)
        assert planned.plan is not None, planned.present
        assert planned.plan.verdict != "blocked", planned.plan.findings
        self.count += 1
        place = self.folder / f"plan-{self.count}.json"
        place.write_bytes(encode_plan(planned.plan))
        return place

    def build(self, plan: Path, tag: str = "grafted", **more: Any) -> BuildReceipt:
        request = replace(BuildRequest(plan_file=str(plan), tag=tag), **more)
        return run_build(request, environment=self.environment, console=self.console)

    def layout(self, image: Image) -> str:
        self.count += 1
        return (
            f"oci:{imaging.write_layout(self.folder / f'image-{self.count}', image, packed='gzip')}"
        )

    def grafted(self, plan: Path, **more: Any) -> tuple[str, BuildReceipt]:
        self.count += 1
        place = self.folder / f"grafted-{self.count}"
        return f"oci:{place}", self.build(plan, to=f"oci:{place}", **more)


@pytest.fixture
def bench(opener: Opener, tmp_path: Path) -> Bench:
    return Bench(opener=opener, folder=tmp_path)


def same(one: BuildReceipt, other: BuildReceipt) -> bool:
    """Whether both are one image: the layer byte for byte, and the configuration."""
    return (one.layer, one.config, one.image_id) == (other.layer, other.config, other.image_id)


def test_two_grafts_one_after_the_other_are_the_graft_of_both(bench: Bench) -> None:
    base = bench.layout(base_image())
    _, wanted = bench.grafted(bench.plan(base, OKAPI, QUAGGA, features=(PARSER,)))
    first, _ = bench.grafted(bench.plan(base, OKAPI, features=(PARSER,)))
    both = bench.plan(first, QUAGGA)
    told = json.loads(both.read_text())
    assert told["architectures"] == [OKAPI, QUAGGA]
    assert told["base"]["source"] == base
    assert f"is grafted ({OKAPI}, {PARSER})" in bench.opener.told
    for place in ("", first):  # onto the recorded base, and onto what lies below the grafted image
        second, found = bench.grafted(both, base=place)
        assert same(found, wanted)
        image = bench.opener.open(second).image
        assert image is not None
        assert len(image.layers) == len(base_image().layers) + 1
    assert f"/{STALE}" in wanted.removed


RULE = """\
        if hf_config.model_type == "okapi":
            hf_config.model_type = "okapi_mtp"
            hf_config.update({"architectures": ["OkapiMTP"]})
        return hf_config
"""


def test_drafts_of_the_first_graft_come_again_where_they_would_have_been(bench: Bench) -> None:
    tree = donor_tree()
    before = tree[SPECULATIVE].decode()
    after = before.replace("        return hf_config\n", RULE).replace(
        '["llama_mtp",', '["llama_mtp", "okapi_mtp",'
    )
    tree[SPECULATIVE] = after.encode()
    bench.donor(tree)
    base = bench.layout(base_image())
    at_once = bench.plan(base, OKAPI, QUAGGA, features=("mtp",))
    assert "OkapiMTP" in json.loads(at_once.read_text())["architectures"]
    first, _ = bench.grafted(bench.plan(base, OKAPI, features=("mtp",)))
    assert bench.plan(first, QUAGGA).read_bytes() == at_once.read_bytes()
    assert bench.planned(first, OKAPI).plan is None


@pytest.mark.parametrize("kind", ["archive", "oci"])
def test_a_grafted_image_is_seen_through_without_the_recorded_base(
    bench: Bench, tmp_path: Path, kind: str
) -> None:
    base = bench.layout(base_image())
    first, _ = bench.grafted(bench.plan(base, OKAPI))
    _, wanted = bench.grafted(bench.plan(base, OKAPI, QUAGGA))
    place = Path(first.removeprefix("oci:"))
    if kind == "archive":
        contents = {
            str(path.relative_to(place)): path.read_bytes()
            for path in place.rglob("*")
            if path.is_file()
        }
        del contents["manifest.json"]  # it names the layers as an engine knows them
        first = f"archive:{imaging.write_archive(tmp_path / 'first.tar', contents, 'zstd')}"
    Path(base.removeprefix("oci:")).rename(tmp_path / "away")
    other = Bench(opener=opener_at(tmp_path / "other"), folder=tmp_path / "there")
    other.folder.mkdir()
    other.donors = bench.donors
    _, found = other.grafted(other.plan(first, QUAGGA), base=first)
    assert same(found, wanted)


def test_what_an_image_has_already_from_this_donor_needs_no_plan(bench: Bench) -> None:
    base = bench.layout(base_image())
    first, _ = bench.grafted(bench.plan(base, OKAPI, QUAGGA))
    planned = bench.planned(first, QUAGGA)
    assert planned.plan is None
    assert "has all of it, grafted from vLLM 0.17.1" in planned.present[0]


def test_a_later_donor_gives_all_of_it_anew(bench: Bench) -> None:
    base = bench.layout(base_image())
    first, _ = bench.grafted(bench.plan(base, OKAPI))
    later = bench.donor(version="0.18.0")
    both = bench.plan(first, QUAGGA, donor=later)
    told = json.loads(both.read_text())
    assert (told["donor"]["version"], told["architectures"]) == ("0.18.0", [OKAPI, QUAGGA])
    assert "now from vLLM 0.18.0 (before: 0.17.1)" in bench.opener.told
    _, wanted = bench.grafted(bench.plan(base, OKAPI, QUAGGA, donor=later))
    assert same(bench.grafted(both)[1], wanted)


def refused(act: Any, *words: Any, **more: Any) -> GraftError:
    with pytest.raises(GraftError) as caught:
        act(*words, **more)
    return caught.value


def test_a_donor_without_the_earlier_model_is_refused(bench: Bench) -> None:
    first, _ = bench.grafted(bench.plan(bench.layout(base_image()), QUAGGA))
    without = {path: text.encode() for path, text in with_okapi(small_vllm()).items()}
    other = bench.donor(without, "0.18.0")
    error = refused(bench.planned, first, OKAPI, donor=other)
    assert error.exit_status == 2
    assert QUAGGA in error.what


def changed_image(bench: Bench, source: str, **settings: object) -> str:
    """The same image as somebody changed it later: other settings, or a layer more."""
    place = Path(source.removeprefix("oci:"))
    (index,) = json.loads((place / "index.json").read_text())["manifests"]
    blobs = place / "blobs/sha256"
    manifest = json.loads((blobs / index["digest"].removeprefix("sha256:")).read_text())
    config = json.loads((blobs / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
    layers = [
        (blobs / each["digest"].removeprefix("sha256:")).read_bytes() for each in manifest["layers"]
    ]
    more: Sequence[bytes] = settings.pop("layers", ())  # type: ignore[assignment]
    unpacked = [
        imaging.gzip.decompress(each) if each[:2] == b"\x1f\x8b" else each for each in layers
    ]
    return bench.layout(Image(layers=[*unpacked, *more], settings={**config["config"], **settings}))


@pytest.mark.parametrize("change", ["settings", "layer", "labels"])
def test_an_image_that_was_changed_since_is_no_base(bench: Bench, change: str) -> None:
    first, _ = bench.grafted(bench.plan(bench.layout(base_image()), OKAPI))
    labels = dict(bench.opener.open(first).image.labels)  # type: ignore[union-attr]
    changes: dict[str, Any] = {
        "settings": {"Entrypoint": ["/other"]},
        "layer": {"layers": [imaging.layer([Item(path="etc/more")])]},
        "labels": {"Labels": {**labels, "vllm-graft.plan": f"sha256:{'0' * 64}"}},
    }
    assert bench.planned(changed_image(bench, first), OKAPI).plan is None
    error = refused(bench.planned, changed_image(bench, first, **changes[change]), QUAGGA)
    assert error.code == "E423"
    assert f"--arch {OKAPI}" in error.remedy


def test_a_plan_that_leaves_out_what_was_grafted_is_not_built_in_its_place(bench: Bench) -> None:
    base = bench.layout(base_image())
    first, _ = bench.grafted(bench.plan(base, OKAPI))
    error = refused(
        bench.build, bench.plan(base, QUAGGA), base=first, to=f"oci:{bench.folder / 'x'}"
    )
    assert error.code == "E428"
    assert f"is without {OKAPI}, " in error.what
    assert "okapi.py" in error.what
    assert not (bench.folder / "x").exists()


def asked(bench: Bench, source: str, against: str = "") -> GraftAnswer:
    install = bench.opener.open(source)
    answer = ask_graft(
        install, against=against, environment=bench.environment, console=bench.console
    )
    assert answer is not None
    return answer


def test_a_newer_base_is_asked_for_all_that_was_grafted(bench: Bench) -> None:
    base = bench.layout(base_image())
    grafted, _ = bench.grafted(bench.plan(base, OKAPI, QUAGGA, features=(PARSER,)))
    same = asked(bench, grafted, base)
    assert (same.base_now, same.base_now_source) == ("unchanged", base)
    # The donor itself as a base; then one without the parser; then one that is older than the donor.
    newer = asked(bench, grafted, bench.donor())
    assert (newer.base_now, newer.base_now_lacks) == ("changed", ())
    tree = donor_tree()
    del tree["vllm/reasoning/okapi_reasoning_parser.py"]
    tree["vllm/reasoning/__init__.py"] = small_vllm()["vllm/reasoning/__init__.py"].encode()
    without = asked(bench, grafted, bench.donor(tree, "0.18.0"))
    assert without.base_now_lacks == (PARSER,)
    older = asked(bench, grafted, bench.donor(version="0.16.0"))
    assert older.base_now_lacks == (f"{PARSER} (it has one of that name, perhaps an older one)",)
    one = {path: text.encode() for path, text in with_okapi(small_vllm()).items()}
    assert QUAGGA in asked(bench, grafted, bench.donor(one, "0.19.0")).base_now_lacks
    inspection = inspect_install(bench.opener.open(grafted))
    for answer, words in (
        (same, "unchanged: the graft is needed"),
        (newer, "no graft is needed on it"),
        (without, f"without {PARSER}: plan again"),
    ):
        shown = render_inspection(replace(inspection, graft=answer), "text", Ink())
        assert words in " ".join(shown.split())
        assert PARSER in shown


def test_what_is_held_against_no_graft_or_cannot_be_read_is_refused(bench: Bench) -> None:
    base = bench.layout(base_image())
    with pytest.raises(RequestError, match="is not grafted"):
        asked(bench, base, base)
    grafted, _ = bench.grafted(bench.plan(base, OKAPI))
    with pytest.raises(SourceError):
        asked(bench, grafted, f"oci:{bench.folder}/none")


def images(docker: Docker, lowest: str) -> list[str]:
    """What the engine has that stands on this layer; tests at work beside have others."""
    shown = "{{.Id}} {{.RepoTags}} {{index .RootFS.Layers 0}}"
    found: list[str] = []
    for each in set(docker.run("image", "ls", "--all", "--quiet").split()):
        # One of another test may be gone meanwhile.
        told = docker.run("image", "inspect", "--format", shown, each, check=False)
        found += [told] if lowest in told else []
    return sorted(found)


def facts_of(bench: Bench, tag: str) -> ImageFacts:
    image = bench.opener.open(f"docker:{tag}").image
    assert image is not None
    return image


@pytest.mark.parametrize("left", ["the base", "the base under another name", "the layers alone"])
def test_an_engines_grafted_image_is_grafted_again(
    docker: Docker, bench: Bench, tmp_path: Path, left: str
) -> None:
    image = base_image(Odd=os.urandom(4).hex())
    image.layers = [imaging.layer([Item(path=os.urandom(8).hex())]), *image.layers]
    base = docker.load(image)
    at_once, first, second = docker.name(), docker.name(), docker.name()
    wanted = bench.build(bench.plan(f"docker:{base}", OKAPI, QUAGGA), at_once)
    bench.build(bench.plan(f"docker:{base}", OKAPI), first)
    docker.run("image", "rm", at_once)
    if left != "the base":
        if left == "the base under another name":
            docker.run("tag", base, docker.name())
        docker.run("image", "rm", base)
    lowest = str(facts_of(bench, first).layers[0])
    before = images(docker, lowest)
    assert before
    # Nothing was read before: another machine would know no more.
    other = replace(bench, opener=opener_at(tmp_path / "other"))
    both = other.plan(f"docker:{first}", QUAGGA)
    assert images(docker, lowest) == before
    found = other.build(both, second, base=f"docker:{first}")
    assert found.outcome == "loaded"
    assert same(found, wanted)
    told = facts_of(bench, second)
    assert told.layers[:-1] == tuple(facts_of(bench, first).layers[:-1])
    assert canonical_digest(told) == wanted.config
    assert docker.containers() == []


def test_a_grafted_image_in_an_engine_that_was_changed_is_no_base(
    docker: Docker, bench: Bench
) -> None:
    base = docker.load(base_image())
    first, later = docker.name(), docker.name()
    bench.build(bench.plan(f"docker:{base}", OKAPI), first)
    recipe = f"FROM {first}\nENV LATER=1\n".encode()
    docker.run("build", "--tag", later, "-", stdin=recipe)
    error = refused(bench.planned, f"docker:{later}", QUAGGA)
    assert isinstance(error, BuildError)
    assert error.code == "E423"


NO_LOAD = '#!/bin/sh\n[ "$1" = load ] && exit 1\nexec {docker} "$@"\n'


def test_an_engine_that_does_not_name_the_lower_layers_says_so(
    docker: Docker, bench: Bench, tmp_path: Path
) -> None:
    import shutil

    base = docker.load(base_image(Odd=os.urandom(4).hex()))
    first = docker.name()
    bench.build(bench.plan(f"docker:{base}", OKAPI), first)
    docker.run("image", "rm", base)
    script = tmp_path / "bin/docker"
    script.parent.mkdir()
    script.write_text(NO_LOAD.format(docker=shutil.which("docker")))
    script.chmod(0o755)
    path = f"{script.parent}:{os.environ['PATH']}"
    other = replace(bench, opener=opener_at(tmp_path / "other", PATH=path))
    error = refused(other.planned, f"docker:{first}", QUAGGA)
    assert isinstance(error, SourceError)
    assert error.code == "E339"
    assert "Load or pull" in error.remedy
    assert isinstance(other.opener.stream, io.StringIO)
