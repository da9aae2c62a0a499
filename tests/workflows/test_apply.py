import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from plans import (
    BASE_TREE,
    CONFIG,
    MODEL,
    MODEL_TEXT,
    REGISTRY,
    REGISTRY_AFTER,
    REGISTRY_BEFORE,
    PlanParts,
    edit,
    module,
)
from vllm_graft.errors import BuildError, RequestError, SourceError
from vllm_graft.image.overlay import JOURNAL
from vllm_graft.run.console import Console
from vllm_graft.run.journal import applied_plans
from vllm_graft.values.codec import encode_plan, plan_digest
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.receipt import ApplyReceipt
from vllm_graft.workflows.apply import ApplyRequest, run_apply

Snapshot = dict[str, bytes | None]


class Bench:
    """A small install on disk, and a plan beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "site-packages"
        self.plan_file = folder / "plan.json"
        for path, content in BASE_TREE.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)
        info = self.root / "vllm-0.14.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.4\nName: vllm\nVersion: 0.14.1\n")

    def apply(
        self, plan: GraftPlan, *, revert: bool = False, dry_run: bool = False
    ) -> ApplyReceipt:
        self.plan_file.write_bytes(encode_plan(plan))
        return self.run(revert=revert, dry_run=dry_run)

    def run(self, *, revert: bool = False, dry_run: bool = False) -> ApplyReceipt:
        return run_apply(
            ApplyRequest(
                plan_file=str(self.plan_file),
                directory=str(self.root),
                revert=revert,
                dry_run=dry_run,
            ),
            environment=Environment(),
            console=Console(stream=io.StringIO()),
        )

    def snapshot(self) -> Snapshot:
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
        }

    def refused(self, plan: GraftPlan) -> BuildError:
        """Apply in vain: a clear refusal, and nothing written."""
        before = self.snapshot()
        with pytest.raises(BuildError) as caught:
            self.apply(plan)
        assert self.snapshot() == before
        assert caught.value.exit_status == 4
        return caught.value


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


PLAN = PlanParts().plan()


def test_a_plan_is_applied_and_says_what_it_wrote(bench: Bench) -> None:
    receipt = bench.apply(PLAN)
    assert receipt.outcome == "applied"
    assert receipt.added == (MODEL, CONFIG)
    assert receipt.edited[0] == REGISTRY
    assert (bench.root / MODEL).read_text() == MODEL_TEXT
    assert (bench.root / REGISTRY).read_bytes() == REGISTRY_AFTER


def test_applying_twice_changes_nothing(bench: Bench) -> None:
    bench.apply(PLAN)
    once = bench.snapshot()
    assert bench.apply(PLAN).outcome == "already applied"
    assert bench.snapshot() == once


def test_revert_restores_the_bytes_and_a_second_one_has_nothing_to_do(bench: Bench) -> None:
    before = bench.snapshot()
    bench.apply(PLAN)
    assert bench.apply(PLAN, revert=True).outcome == "reverted"
    assert bench.snapshot() == before
    assert bench.apply(PLAN, revert=True).outcome == "nothing to revert"


@pytest.mark.parametrize("revert", [False, True])
def test_a_dry_run_says_the_same_and_writes_nothing(bench: Bench, *, revert: bool) -> None:
    if revert:
        bench.apply(PLAN)
    before = bench.snapshot()
    told = bench.apply(PLAN, revert=revert, dry_run=True)
    assert bench.snapshot() == before
    done = bench.apply(PLAN, revert=revert)
    assert (told.added, told.edited, told.outcome) == (done.added, done.edited, done.outcome)


def test_a_base_file_that_is_not_the_planned_one_is_refused_by_name(bench: Bench) -> None:
    (bench.root / REGISTRY).write_bytes(b"# patched\n" + REGISTRY_BEFORE)
    error = bench.refused(PLAN)
    assert error.code == "E405"
    for told in (REGISTRY, str(Digest.of(REGISTRY_BEFORE)), "found sha256:"):
        assert told in error.what


def test_a_base_file_that_is_gone_is_refused(bench: Bench) -> None:
    (bench.root / REGISTRY).unlink()
    assert "no file" in bench.refused(PLAN).what


def test_a_grafted_path_with_other_content_is_refused(bench: Bench) -> None:
    (bench.root / MODEL).write_text("mine\n")
    assert bench.refused(PLAN).code == "E406"


def test_a_file_that_was_there_already_stays_after_revert(bench: Bench) -> None:
    (bench.root / MODEL).write_text(MODEL_TEXT)
    assert MODEL not in bench.apply(PLAN).added
    bench.apply(PLAN, revert=True)
    assert (bench.root / MODEL).read_text() == MODEL_TEXT


def test_another_base_version_is_refused_and_a_local_part_is_not(bench: Bench) -> None:
    metadata = bench.root / "vllm-0.14.1.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("0.14.1", "0.15.1"))
    error = bench.refused(PLAN)
    assert error.code == "E402"
    assert "0.14.1" in error.what
    assert "0.15.1" in error.what
    metadata.write_text(metadata.read_text().replace("0.15.1", "0.14.1+cu130"))
    assert bench.apply(PLAN).outcome == "applied"


def test_a_blocked_plan_is_refused(bench: Bench) -> None:
    assert bench.refused(PlanParts(verdict="blocked").plan()).code == "E401"


@pytest.mark.parametrize(
    "path",
    [
        "../evil.py",
        "vllm/../../evil.py",
        "/opt/evil.py",
        "vllm//evil.py",
        "vllm/./evil.py",
        "vllm\\evil.py",
        "vllm/evil\0.py",
        "sitecustomize.py",
        "vllm",
        f"{JOURNAL}/evil.py",
        f"{MODEL}/evil.py",
        REGISTRY,
    ],
)
def test_a_path_that_a_graft_may_not_write_is_refused(bench: Bench, path: str) -> None:
    modules = (*PLAN.modules, module(path, "evil = True\n"))
    assert bench.refused(PlanParts(modules=modules).plan()).code == "E403"


@pytest.mark.parametrize("link", ["vllm/model_executor", "vllm/model_executor/models", REGISTRY])
def test_nothing_is_written_through_a_symbolic_link(
    bench: Bench, tmp_path: Path, link: str
) -> None:
    place = bench.root / link
    elsewhere = tmp_path / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    with pytest.raises((BuildError, SourceError), match=r"link"):
        bench.apply(PLAN)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.py")} == before


@pytest.mark.parametrize("kind", ["link", "editable"])
def test_a_vllm_that_lies_elsewhere_must_be_named_itself(
    bench: Bench, tmp_path: Path, kind: str
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (bench.root / "vllm").rename(checkout / "vllm")
    if kind == "link":
        (bench.root / "vllm").symlink_to(checkout / "vllm")
    else:
        (bench.root / "__editable__.vllm.pth").write_text(f"{checkout}\n")
    error = bench.refused(PLAN)
    assert error.code == "E404"
    assert f"vllm-graft apply PLAN {checkout}" in error.remedy


def test_a_link_inside_the_tree_is_not_written_through_either(bench: Bench) -> None:
    models = bench.root / "vllm/model_executor/models"
    models.rename(bench.root / "vllm/real_models")
    models.symlink_to(bench.root / "vllm/real_models")
    assert bench.refused(PLAN).code == "E404"


def test_the_directory_itself_may_be_a_link(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(bench.root)
    bench.root = tmp_path / "link"
    assert bench.apply(PLAN).outcome == "applied"


def test_a_diff_that_does_not_give_what_it_promises_is_refused(bench: Bench) -> None:
    good = PLAN.edits[0]
    for bad in (
        replace(good, diff=good.diff.replace("+    ", "+        ")),
        replace(good, diff=good.diff.replace("LlamaForCausalLM", "OtherForCausalLM")),
        replace(good, diff=""),
        edit(REGISTRY, REGISTRY_BEFORE, b"def broken(:\n"),
    ):
        assert bench.refused(PlanParts(edits=(bad,)).plan()).code == "E408"


def test_a_module_that_is_no_python_is_refused(bench: Bench) -> None:
    broken = module(MODEL, "class Broken(:\n")
    assert bench.refused(PlanParts(modules=(broken,)).plan()).code == "E408"


def test_a_read_only_install_is_refused_before_anything_is_written(
    bench: Bench, tmp_path: Path
) -> None:
    before = bench.snapshot()
    bench.apply(PLAN, dry_run=True)  # imports everything while we still may
    for folder in (bench.root, *bench.root.rglob("*")):
        folder.chmod(0o555 if folder.is_dir() else 0o444)
    for folder in (tmp_path, *(above for above in tmp_path.parents if "pytest" in str(above))):
        folder.chmod(0o755)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)  # root may write anywhere: be somebody else
        with pytest.raises(BuildError, match="read-only") as caught:
            bench.run()
    finally:
        os.seteuid(user)
        for folder in (bench.root, *bench.root.rglob("*")):
            folder.chmod(0o755 if folder.is_dir() else 0o644)
    assert caught.value.code == "E407"
    assert bench.snapshot() == before


def test_a_directory_without_vllm_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.plan_file.write_bytes(encode_plan(PLAN))
    bench.root = tmp_path / "empty"
    bench.root.mkdir()
    with pytest.raises(SourceError):
        bench.run()


def test_a_plan_file_that_is_not_there_is_a_request_error(bench: Bench) -> None:
    with pytest.raises(RequestError) as caught:
        bench.run()
    assert caught.value.code == "E213"


def test_a_second_graft_on_top_is_reverted_first(bench: Bench) -> None:
    before = bench.snapshot()
    bench.apply(PLAN)
    second = PlanParts(
        modules=(module("vllm/model_executor/models/newer.py", "X = 1\n"),),
        edits=(edit(REGISTRY, REGISTRY_AFTER, REGISTRY_AFTER + b"# newer\n"),),
    ).plan()
    bench.apply(second)
    assert set(applied_plans(bench.root)) == {plan_digest(PLAN), plan_digest(second)}
    with pytest.raises(BuildError, match="changed after the graft") as caught:
        bench.apply(PLAN, revert=True)
    assert caught.value.code == "E410"
    assert "another graft was applied on top" in caught.value.remedy
    bench.apply(second, revert=True)
    bench.apply(PLAN, revert=True)
    assert bench.snapshot() == before


def test_vllm_installed_again_over_a_graft_is_grafted_afresh(bench: Bench) -> None:
    bench.apply(PLAN)
    grafted = bench.snapshot()
    (bench.root / REGISTRY).write_bytes(REGISTRY_BEFORE)
    assert bench.apply(PLAN).outcome == "applied"
    assert bench.snapshot() == grafted


def test_a_base_that_is_not_file_for_file_the_planned_one_is_told(bench: Bench) -> None:
    assert not bench.apply(PLAN).same_base
