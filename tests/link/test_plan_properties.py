"""What holds for every plan, shown on small installs that are put together at random."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import PurePosixPath

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from held import small_vllm, with_okapi
from linking import LAYERS, MODEL, OTHER, answers, linked, packages

# Pieces of an engine, each of which a release may have in one of several forms, and what a model does with it.
ENGINE: Mapping[str, tuple[str, ...]] = {
    "scale": (
        "",
        "def scale(x):\n    return x\n",
        "def scale(x, by=2):\n    return x * by\n",
        "def scale(x, by=3, *, exactly=False):\n    return shift(x) * by\n",
    ),
    "shift": ("", "def shift(x):\n    return x + 1\n", "def shift(x, n=1):\n    return x + n\n"),
    "Layer": (
        "",
        "class Layer:\n    def run(self, x):\n        return x\n",
        (
            "class Layer:\n    size = 2\n    def run(self, x, y=0):\n        return self.part(x) + y\n"
            "    def part(self, x):\n        return x * self.size\n"
        ),
    ),
    "parts": (
        "",
        "def parts(x):\n    return x, x\n",
        "def parts(x):\n    return x, x, LIMIT\n",
    ),
    "LIMIT": ("LIMIT = 1\n", "LIMIT = 5\n"),
}
USES: Mapping[str, tuple[str, ...]] = {
    "scale": ("scale(2)", "scale(2, by=4)", "scale(2, exactly=False)"),
    "shift": ("shift(1)", "shift(1, 2)"),
    "Layer": ("Layer().run(1)", "Layer().run(1, 2)", "Layer.size", "Mine().run(3)"),
    "parts": ("[a + b for a, b in [parts(1)]]", "unpack()"),
    "LIMIT": ("LIMIT",),
}


@st.composite
def engines(draw: st.DrawFn) -> str:
    """An engine that runs: what its own code calls is there."""
    engine = "\n\n".join(draw(st.sampled_from(forms)) for forms in ENGINE.values())
    assume("shift(x) * by" not in engine or "def shift" in engine)
    return engine


def model_over(engine: str, uses: list[str]) -> str:
    """A model that makes these uses of what the engine has."""
    has = [name for name in ENGINE if any(f"{word} {name}" in engine for word in ("def", "class"))]
    has = [*has, "LIMIT"]
    mine = "class Mine(Layer):\n    def part(self, x):\n        return x + 10\n\n\n"
    unpack = "def unpack():\n    a, b = parts(1)\n    return a + b\n\n\n"
    body = "".join(
        f"    def run{i}(self):\n        return {use}\n"
        for i, use in enumerate(uses)
        if all(
            name in has for name in (*ENGINE, "Mine", "unpack") if name in use and name in ENGINE
        )
        and ("Mine" not in use or "Layer" in has)
        and ("unpack" not in use or "parts" in has)
    )
    return (
        f"from vllm.model_executor.layers.library import {', '.join(has)}\n\n\n"
        + (mine if "Layer" in has else "")
        + (unpack if "parts" in has else "")
        + f"class OkapiForCausalLM:\n    name = 'okapi'\n{body}"
    )


CALLER = {"vllm/v1/caller.py": "def call(model):\n    model.run0(), model.run1(), model.run2()\n"}
"""An engine that calls what a model has: what nothing calls need not work."""

USED = st.lists(st.sampled_from([use for uses in USES.values() for use in uses]), max_size=3)


def ask_all(model: str) -> str:
    """An expression that tries every method of the model."""
    names = [f"run{i}" for i in range(3) if f"def run{i}" in model]
    return f"[getattr(model.OkapiForCausalLM(), n)() for n in {names}]"


@settings(deadline=None, max_examples=40)
@given(donor=engines(), base=engines(), uses=USED)
def test_what_is_called_ok_answers_as_the_donor_does_where_nothing_else_is_told(
    donor: str, base: str, uses: list[str]
) -> None:
    model = model_over(donor, uses)
    linking = linked(donor={LAYERS: donor, MODEL: model, **CALLER}, base={LAYERS: base, **CALLER})
    (wanted, said) = answers([linking.donor, linking.grafted], ask_all(model))
    if "failed" in wanted:
        return  # the donor itself cannot run this
    has_changed = any(r.resolution == "changed" for r in linking.plan.references)
    if linking.plan.verdict == "ok" and not has_changed:
        assert said == wanted
    elif linking.plan.verdict != "blocked":
        assert "said" in said, (said, linking.plan.findings)


@settings(deadline=None, max_examples=20)
@given(engine=engines(), uses=USED)
def test_nothing_is_brought_to_a_base_that_has_all(engine: str, uses: list[str]) -> None:
    files = with_okapi({**packages(), **small_vllm(), LAYERS: engine})
    files[MODEL] = model_over(engine, uses)
    linking = linked(both=files, donor=files)
    assert linking.plan.verdict == "ok"
    assert linking.plan.edits == ()
    assert linking.plan.findings == ()
    assert all(site.decision == "present" for site in linking.plan.sites)


@settings(deadline=None, max_examples=20)
@given(donor=engines(), base=engines(), uses=USED, name=st.sampled_from(["unused", "Unused"]))
def test_an_unused_name_in_the_base_adds_no_finding(
    donor: str, base: str, uses: list[str], name: str
) -> None:
    files = {LAYERS: donor, MODEL: model_over(donor, uses)}
    plain = linked(donor=files, base={LAYERS: base, **CALLER})
    more = linked(
        donor=files,
        base={
            LAYERS: f"{base}\n\ndef {name}():\n    pass\n",
            OTHER: f"class {name}:\n    pass\n",
            **CALLER,
        },
    )
    assert more.codes == plain.codes
    assert more.plan.verdict == plain.plan.verdict


@settings(deadline=None, max_examples=20)
@given(donor=engines(), base=engines(), uses=USED)
def test_a_plan_stays_inside_vllm_and_writes_over_nothing(
    donor: str, base: str, uses: list[str]
) -> None:
    linking = linked(donor={LAYERS: donor, MODEL: model_over(donor, uses)}, base={LAYERS: base})
    for path in (*(m.path for m in linking.plan.modules), *(e.path for e in linking.plan.edits)):
        assert PurePosixPath(path).parts[0] == "vllm"
        assert ".." not in PurePosixPath(path).parts
    assert not {m.path for m in linking.plan.modules} & linking.base.keys()
    assert {e.path for e in linking.plan.edits} <= linking.base.keys()


PLANNING = """
import json, sys
from dataclasses import asdict
from linking import LAYERS, MODEL, OTHER, linked
texts = json.loads(sys.stdin.read())
plan = linked(donor=texts["donor"], base=texts["base"]).plan
print(json.dumps(asdict(plan), default=str))
"""


def planned(seed: str, texts: Mapping[str, Mapping[str, str]]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PLANNING],
        input=json.dumps(texts),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_plan_does_not_depend_on_the_order_of_hashes(seed: str) -> None:
    donor = "\n\n".join(forms[-1] for forms in ENGINE.values())
    base = "\n\n".join(forms[1] for forms in ENGINE.values())
    uses = ["scale(2, by=4)", "Mine().run(3)", "unpack()"]
    files = {LAYERS: donor, MODEL: model_over(donor, uses)}
    here = linked(donor=files, base={LAYERS: base}).plan
    assert here.modules
    assert json.loads(planned(seed, {"donor": files, "base": {LAYERS: base}})) == json.loads(
        json.dumps(asdict(here), default=str)
    )
