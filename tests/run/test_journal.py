import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plans import BASE_TREE, CONFIG, MODEL, REGISTRY, REGISTRY_AFTER, PlanParts, module
from vllm_graft.errors import BuildError, VerificationError
from vllm_graft.image.overlay import JOURNAL, OverlayFile, build_file, planned_files
from vllm_graft.run.journal import (
    applied_plans,
    recover,
    revert,
    unfinished_plans,
    write_overlay,
)
from vllm_graft.run.tree import one_at_a_time, read_files
from vllm_graft.values.codec import encode_plan, plan_digest
from vllm_graft.values.plan import GraftPlan

# The plan's files, one of them in two folders that the base does not have.
PLAN = PlanParts(
    modules=(
        module(MODEL, "class NewForCausalLM: ...\n"),
        module(CONFIG, "class NewConfig: ...\n"),
        module("vllm/models/new/nvidia/model.py", "WEIGHTS = 1\n"),
    )
).plan()

Snapshot = dict[str, bytes | None]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, content in BASE_TREE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path


def snapshot(root: Path) -> Snapshot:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def overlay(root: Path, plan: GraftPlan) -> tuple[OverlayFile, ...]:
    planned = planned_files(plan)
    found = read_files(root, [file.path for file in planned])
    return tuple(build_file(file, found[file.path] or b"") for file in planned)


def write(root: Path, plan: GraftPlan = PLAN) -> None:
    write_overlay(root, plan_digest(plan), overlay(root, plan), encode_plan(plan))


def test_what_was_written_is_taken_back_to_the_same_bytes_and_folders(tree: Path) -> None:
    before = snapshot(tree)
    write(tree)
    assert (tree / REGISTRY).read_bytes() == REGISTRY_AFTER
    assert applied_plans(tree) == (plan_digest(PLAN),)
    assert (tree / JOURNAL / plan_digest(PLAN).hex[:16] / "plan.json").read_bytes() == encode_plan(
        PLAN
    )
    revert(tree, plan_digest(PLAN))
    assert snapshot(tree) == before


def test_mode_and_hard_links_of_edited_files_are_respected(tree: Path) -> None:
    # uv links installed files to its cache: editing in place would change the cache and every other install.
    elsewhere = tree.with_name(f"{tree.name}-cache.py")
    elsewhere.hardlink_to(tree / REGISTRY)
    (tree / REGISTRY).chmod(0o640)
    write(tree)
    assert elsewhere.read_bytes() == BASE_TREE[REGISTRY]
    assert (tree / REGISTRY).stat().st_mode & 0o777 == 0o640
    revert(tree, plan_digest(PLAN))
    assert (tree / REGISTRY).stat().st_mode & 0o777 == 0o640


def test_stale_bytecode_of_written_files_goes_and_other_bytecode_stays(tree: Path) -> None:
    cache = tree / "vllm/model_executor/models/__pycache__"
    cache.mkdir()
    for name in (
        "registry.cpython-312.pyc",
        "registry.cpython-312.opt-1.pyc",
        "llama.cpython-312.pyc",
    ):
        (cache / name).write_bytes(b"stale")
    write(tree)
    assert [path.name for path in cache.iterdir()] == ["llama.cpython-312.pyc"]
    (cache / "registry.cpython-312.pyc").write_bytes(b"of the grafted text")
    (cache / "new.cpython-312.pyc").write_bytes(b"of the grafted text")
    revert(tree, plan_digest(PLAN))
    assert [path.name for path in cache.iterdir()] == ["llama.cpython-312.pyc"]


def run_until(tree: Path, verb: str, change: int, how: str) -> int:
    """Run the verb in a child that ends at its nth change of the file system; gives its exit status.

    The audit hook sees each change before it happens; the kill is real.
    """
    child = os.fork()
    if child == 0:
        status = 99
        try:
            sys.addaudithook(ender(change, how))
            if verb == "write":
                write(tree)
            else:
                revert(tree, plan_digest(PLAN))
            status = 0
        except (KeyboardInterrupt, BuildError):
            status = 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ender(last: int, how: str) -> Callable[[str, tuple[object, ...]], None]:
    """Give a hook that ends the program at a change: AGAIN and STAYS FULL also at each one after it."""
    changes = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal changes
        written = event == "open" and isinstance(arguments[1], str) and "w" in arguments[1]
        if (
            event not in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")
            and not written
        ):
            return
        changes += 1
        if changes < last or (changes > last and how not in ("INT AGAIN", "STAYS FULL")):
            return
        if how == "KILL":
            os.kill(os.getpid(), signal.SIGKILL)
        if how.startswith("INT"):
            os.kill(os.getpid(), signal.SIGINT)
        elif how == "FULL" or written or event == "os.mkdir":
            raise OSError(28, "No space left on device")

    return count


def every_change(verb: str, how: str, tree: Path, check: Callable[[str], None]) -> None:
    """End the verb before its first change, its second, … until it runs to its end; check after each."""
    for change in range(1, 200):
        status = run_until(tree, verb, change, how)
        if status == 0:
            assert change > 10
            return
        assert status == (-signal.SIGKILL if how == "KILL" else 1)
        check(f"{verb} ended by {how} at change {change}")
    pytest.fail("it never ran to its end")


def test_kill_anywhere_in_writing_leaves_what_the_next_run_undoes(tree: Path) -> None:
    before = snapshot(tree)

    def check(when: str) -> None:
        if applied_plans(tree):  # killed after the last change that matters
            revert(tree, plan_digest(PLAN))
        recover(tree)
        assert snapshot(tree) == before, when

    every_change("write", "KILL", tree, check)
    assert (tree / REGISTRY).read_bytes() == REGISTRY_AFTER


def test_kill_anywhere_in_reverting_leaves_what_the_next_run_undoes(tree: Path) -> None:
    before = snapshot(tree)
    write(tree)

    def check(when: str) -> None:
        recover(tree)
        revert(tree, plan_digest(PLAN))
        assert snapshot(tree) == before, when
        write(tree)

    every_change("revert", "KILL", tree, check)
    assert snapshot(tree) == before


@pytest.mark.parametrize("how", ["INT", "INT AGAIN", "FULL", "STAYS FULL"])
def test_ctrl_c_and_a_full_disk_in_the_middle_leave_the_tree_as_it_was(
    tree: Path, how: str
) -> None:
    before = snapshot(tree)

    def check(when: str) -> None:
        assert unfinished_plans(tree) == (), when
        if not applied_plans(tree):
            assert {
                path: content for path, content in snapshot(tree).items() if JOURNAL not in path
            } == before, when
        recover(tree)
        revert(tree, plan_digest(PLAN))
        assert snapshot(tree) == before, when

    every_change("write", how, tree, check)


@pytest.mark.parametrize("how", ["INT", "INT AGAIN"])
def test_ctrl_c_anywhere_in_reverting_ends_when_all_is_taken_back(tree: Path, how: str) -> None:
    before = snapshot(tree)
    write(tree)

    def check(when: str) -> None:
        assert snapshot(tree) == before, when
        write(tree)

    every_change("revert", how, tree, check)


def test_a_file_changed_after_the_graft_stops_the_revert_before_anything_is_touched(
    tree: Path,
) -> None:
    write(tree)
    (tree / MODEL).write_text("mine\n")
    after = snapshot(tree)
    with pytest.raises(BuildError, match="changed after the graft") as caught:
        revert(tree, plan_digest(PLAN))
    assert caught.value.code == "E410"
    assert snapshot(tree) == after


@pytest.mark.parametrize("state", ["{", "[]", '{"phase": "applied"}'])
def test_a_damaged_journal_is_told_and_nothing_is_touched(tree: Path, state: str) -> None:
    write(tree)
    (tree / JOURNAL / plan_digest(PLAN).hex[:16] / "state.json").write_text(state)
    after = snapshot(tree)
    with pytest.raises(BuildError) as caught:
        revert(tree, plan_digest(PLAN))
    assert caught.value.code == "E413"
    assert snapshot(tree) == after


def test_a_damaged_original_is_never_put_back(tree: Path) -> None:
    write(tree)
    folder = tree / JOURNAL / plan_digest(PLAN).hex[:16]
    for original in folder.glob("*.original"):
        original.write_bytes(b"rotten")
    with pytest.raises(BuildError) as caught:
        revert(tree, plan_digest(PLAN))
    assert caught.value.code == "E413"
    assert (tree / REGISTRY).read_bytes() == REGISTRY_AFTER


def test_a_second_vllm_graft_in_the_same_tree_is_refused(tree: Path) -> None:
    with one_at_a_time(tree), pytest.raises(BuildError) as caught, one_at_a_time(tree):
        pytest.fail("both were let in")
    assert caught.value.code == "E412"


def test_what_reads_back_as_something_else_is_undone(tree: Path) -> None:
    before = snapshot(tree)
    planned = overlay(tree, PLAN)
    broken = tuple(
        OverlayFile(path=file.path, before=file.before, content=b"no python(")
        if file.path == MODEL
        else file
        for file in planned
    )
    with pytest.raises(VerificationError) as caught:
        write_overlay(tree, plan_digest(PLAN), broken, encode_plan(PLAN))
    assert caught.value.code == "E601"
    assert snapshot(tree) == before
