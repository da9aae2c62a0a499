# The end of the way: a grafted image serves a tiny model of the grafted architecture, token for token as the donor does.
from collections.abc import Iterator
from pathlib import Path

import environments
import parity
import pytest
import story_images
from tiny_models import EVERY

from engines import Docker, docker_or_skip

BASE, DONOR, MODEL = "0.27.1", "0.30.0", "MuseGlimmerForCausalLM"


@pytest.fixture
def docker() -> Iterator[Docker]:
    engine = docker_or_skip()
    yield engine
    engine.clean()


def test_a_grafted_image_serves_the_donors_tokens(docker: Docker, tmp_path: Path) -> None:
    donor = parity.serve(environments.tree(DONOR), [MODEL])[MODEL]
    base = docker.load(story_images.node_image_or_skip(BASE, distributions=()))
    tag, plan = docker.name(), str(tmp_path / "plan.json")
    sources = ("--base", f"docker:{base}", "--donor", f"path:{environments.tree(DONOR)}")
    story_images.graft("plan", *sources, "--arch", MODEL, "-o", plan)
    story_images.graft("build", plan, "-t", tag)
    jobs = [parity.job(MODEL)]
    control = story_images.ask_image(docker, base, "inside_tokens.py", jobs)
    assert "error" in control[MODEL]
    grafted = story_images.ask_image(docker, tag, "inside_tokens.py", jobs)
    outcome = parity.compare(donor, grafted[MODEL], EVERY[MODEL])
    assert outcome.same, f"{parity.told(outcome)} {grafted[MODEL].get('traceback', '')}"
