"""A real registry for tests: Debian's docker-registry, on a port of its own."""

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from imaging import Image

USER, PASSWORD = "reader", "open sesame"
_HASHED = "$2b$05$JNvxKqTU.6f6tC596LApIeWds1rhGkNSHOtVo6uscoKeLfO33xV6y"


@dataclass(kw_only=True)
class Registry:
    """Where it is, and how to put images into it."""

    host: str
    login: bool

    def send(self, method: str, url: str, content: bytes = b"", media_type: str = "") -> str:
        told = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {told}"} if self.login else {}
        if media_type:
            headers["Content-Type"] = media_type
        request = urllib.request.Request(url, data=content or None, method=method, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return response.headers.get("Location", "")

    def push(self, name: str, *images: Image, packed: str = "gzip", tag: str = "latest") -> str:
        base = f"http://{self.host}/v2/{name}"
        descriptors = []
        for image in images:
            contents, descriptor = image.blobs(packed)
            digest = descriptor["digest"].removeprefix("sha256:")
            for each, content in contents.items():
                if each != digest:
                    place = self.send("POST", f"{base}/blobs/uploads/")
                    joint = "&" if "?" in place else "?"
                    self.send(
                        "PUT",
                        f"{place}{joint}digest=sha256:{each}",
                        content,
                        "application/octet-stream",
                    )
            reference = tag if len(images) == 1 else f"sha256:{digest}"
            media_type = "application/vnd.oci.image.manifest.v1+json"
            self.send("PUT", f"{base}/manifests/{reference}", contents[digest], media_type)
            descriptors.append(
                {key: descriptor[key] for key in ("mediaType", "digest", "size", "platform")}
            )
        if len(images) > 1:
            media_type = "application/vnd.oci.image.index.v1+json"
            index = {"schemaVersion": 2, "mediaType": media_type, "manifests": descriptors}
            self.send("PUT", f"{base}/manifests/{tag}", json.dumps(index).encode(), media_type)
        return f"registry:{self.host}/{name}:{tag}"


@contextlib.contextmanager
def running_registry(folder: Path, *, login: bool = False) -> Generator[Registry]:
    """Start one; a machine without the program skips, unless all is required."""
    program = shutil.which("docker-registry")
    if program is None:
        if os.environ.get("VLLM_GRAFT_REQUIRE_ALL") == "1":
            pytest.fail("docker-registry is required (Debian: docker-registry)")
        pytest.skip("no docker-registry on this machine")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = [
        "version: 0.1",
        f"storage: {{filesystem: {{rootdirectory: {folder}/store}}}}",
        f"http: {{addr: '127.0.0.1:{port}'}}",
    ]
    if login:
        (folder / "users").write_text(f"{USER}:{_HASHED}\n")
        lines.append(f"auth: {{htpasswd: {{realm: tests, path: {folder}/users}}}}")
    (folder / "registry.yml").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            [program, "serve", folder / "registry.yml"], stdout=log, stderr=log
        )
    try:
        _wait(port, child, folder)
        yield Registry(host=f"127.0.0.1:{port}", login=login)
    finally:
        child.kill()
        child.wait()


def _wait(port: int, child: "subprocess.Popen[bytes]", folder: Path) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            return
        assert child.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    pytest.fail((folder / "log").read_text())
