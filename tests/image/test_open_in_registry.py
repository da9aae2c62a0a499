import base64
import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

import imaging
from imaging import Image, python, vllm
from opening import Opener
from registries import PASSWORD, USER, Registry, running_registry
from vllm_graft.errors import SourceError
from vllm_graft.image.registry import Address, parse_address, parse_login, token_address
from vllm_graft.values.source import SourceOptions, parse_platform


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with running_registry(tmp_path) as found:
        yield found


@pytest.fixture
def locked_registry(tmp_path: Path) -> Iterator[Registry]:
    with running_registry(tmp_path, login=True) as found:
        yield found


IMAGE = Image.of(python(), vllm())


@pytest.mark.parametrize("packed", ["gzip", "zstd"])
def test_an_image_is_read_from_a_registry(
    registry: Registry, opener: Opener, tmp_path: Path, packed: str
) -> None:
    source = registry.push("some/vllm", IMAGE, packed=packed, tag="1")
    install = opener.open(source)
    same = opener.open(f"oci:{imaging.write_layout(tmp_path / 'image', IMAGE)}")
    assert install.digest == same.digest
    assert install.location.endswith(f"in {registry.host}/some/vllm:1")
    assert install.image is not None
    assert same.image is not None
    assert install.image.layers == same.image.layers


def test_an_image_is_read_by_its_digest(registry: Registry, opener: Opener) -> None:
    registry.push("some/vllm", IMAGE)
    digest = IMAGE.blobs("gzip")[1]["digest"]
    assert opener.open(f"registry:{registry.host}/some/vllm@{digest}").version == "0.17.1"


def test_one_platform_of_several_is_chosen(registry: Registry, opener: Opener) -> None:
    other = Image.of(python(), vllm(version="0.14.1"), architecture="arm64")
    source = registry.push("some/vllm", IMAGE, other)
    with pytest.raises(SourceError) as caught:
        opener.open(source)
    assert caught.value.code == "E323"
    assert "linux/arm64" in caught.value.what
    options = SourceOptions(platform=parse_platform("linux/arm64"))
    assert opener.open(source, options).version == "0.14.1"


def test_what_is_not_there_is_named(registry: Registry, opener: Opener) -> None:
    registry.push("some/vllm", IMAGE)
    for name in ("some/vllm:2", "none/such"):
        with pytest.raises(SourceError) as caught:
            opener.open(f"registry:{registry.host}/{name}")
        assert caught.value.code == "E342"


def test_a_layer_that_the_registry_altered_is_not_read(
    registry: Registry, opener: Opener, tmp_path: Path
) -> None:
    source = registry.push("some/vllm", IMAGE, packed="plain")
    stored = tmp_path / "store/docker/registry/v2/blobs/sha256"
    largest = max(stored.rglob("data"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    place = content.index(b"class LlamaForCausalLM")
    content[place : place + 5] = b"klass"
    largest.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        opener.open(source)
    assert caught.value.code == "E324"


def test_a_registry_that_is_not_there_is_told(opener: Opener) -> None:
    with pytest.raises(SourceError) as caught:
        opener.open("registry:127.0.0.1:9/vllm")
    assert caught.value.code == "E340"


def logged_in(folder: Path, host: str, kind: str) -> dict[str, str]:
    """Write what `docker login` leaves behind."""
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    told = {
        "docker": {"auths": {host: {"auth": auth}}},
        "with scheme": {"auths": {f"https://{host}/v1/": {"auth": auth}}},
        "helper": {"credHelpers": {host: "tests"}},
        "store": {"credsStore": "tests"},
    }[kind]
    helper = folder / "bin/docker-credential-tests"
    helper.parent.mkdir()
    answer = json.dumps({"ServerURL": host, "Username": USER, "Secret": PASSWORD})
    helper.write_text(
        f'#!/bin/sh\n[ "$1" = get ] && [ "$(cat)" = "{host}" ] && echo \'{answer}\'\n'
    )
    helper.chmod(0o755)
    (folder / "config.json").write_text(json.dumps(told))
    return {"DOCKER_CONFIG": str(folder), "PATH": f"{helper.parent}:/usr/bin:/bin"}


@pytest.mark.parametrize("kind", ["docker", "with scheme", "helper", "store"])
def test_the_users_login_is_used(
    locked_registry: Registry, opener: Opener, tmp_path: Path, kind: str
) -> None:
    source = locked_registry.push("some/vllm", IMAGE)
    variables = {"DOCKER_CONFIG": str(tmp_path / "none"), "XDG_RUNTIME_DIR": str(tmp_path)}
    with pytest.raises(SourceError) as caught:
        opener.open(source, variables=variables)
    assert caught.value.code == "E341"
    assert f"docker login {locked_registry.host}" in caught.value.remedy
    (tmp_path / "login").mkdir()
    told = logged_in(tmp_path / "login", locked_registry.host, kind)
    assert opener.open(source, variables=variables | told).version == "0.17.1"
    assert PASSWORD not in opener.told


def test_podmans_login_is_used_too(
    locked_registry: Registry, opener: Opener, tmp_path: Path
) -> None:
    source = locked_registry.push("some/vllm", IMAGE)
    (tmp_path / "containers").mkdir()
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    told = {"auths": {locked_registry.host: {"auth": auth}}}
    (tmp_path / "containers/auth.json").write_text(json.dumps(told))
    variables = {"DOCKER_CONFIG": str(tmp_path / "none"), "XDG_RUNTIME_DIR": str(tmp_path)}
    assert opener.open(source, variables=variables).version == "0.17.1"


class TokenGate(http.server.BaseHTTPRequestHandler):
    """In front of a registry: every request needs a token, and a token is good for two requests."""

    behind = ""
    issued: ClassVar[dict[str, int]] = {}
    store = ""
    """Where blobs are sent to: another host, as large registries do."""
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        told = self.headers.get("Authorization", "")
        if url.path == "/token":
            self.give_token(told)
            return
        token = told.removeprefix("Bearer ")
        if self.issued.get(token, 0) <= 0:
            self.send_response(401)
            realm = f"http://{self.headers['Host']}/token"
            self.send_header("WWW-Authenticate", f'Bearer realm="{realm}",service="tests"')
            self.end_headers()
            return
        self.issued[token] -= 1
        where = self.store if "/blobs/" in url.path else self.behind
        self.send_response(307)
        self.send_header("Location", f"http://{where}{self.path}")
        self.end_headers()

    def give_token(self, told: str) -> None:
        wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        assert "scope=repository%3Asome%2Fvllm%3Apull" in self.path
        if told != f"Basic {wanted}":
            self.send_response(401)
            self.end_headers()
            return
        token = f"t{len(self.issued)}"
        self.issued[token] = 2
        content = json.dumps({"token": token}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        self.seen.append(format % args)


def test_tokens_are_asked_for_as_often_as_they_run_out(
    registry: Registry, opener: Opener, tmp_path: Path
) -> None:
    registry.push("some/vllm", IMAGE)
    gate = type(
        "Gate",
        (TokenGate,),
        {
            "behind": registry.host,
            "store": registry.host.replace("127.0.0.1", "localhost"),
            "issued": {},
        },
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), gate)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        host = f"127.0.0.1:{server.server_port}"
        (tmp_path / "login").mkdir()
        variables = logged_in(tmp_path / "login", host, "docker")
        install = opener.open(f"registry:{host}/some/vllm", variables=variables)
        assert install.version == "0.17.1"
        assert len(gate.issued) > 1
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h.example/a", Address(host="h.example", repository="a", reference="latest")),
        ("h:5000/a/b:1", Address(host="h:5000", repository="a/b", reference="1")),
        (
            "localhost/a:1@sha256:ff",
            Address(host="localhost", repository="a", reference="sha256:ff"),
        ),
        ("a/b", None),
        ("a", None),
    ],
)
def test_an_address_has_a_host(text: str, address: Address | None) -> None:
    assert parse_address(text) == address


def test_credentials_travel_in_the_clear_on_this_machine_only() -> None:
    address = Address(host="h.example:5000", repository="a", reference="1")
    assert address.base == "https://h.example:5000/v2/a"
    assert parse_login(b"not json", "h").credentials is None
    assert parse_login(b'{"auths": {"h": {"auth": "%%%"}}}', "h").credentials is None
    assert token_address('Basic realm="x"', "a") is None
