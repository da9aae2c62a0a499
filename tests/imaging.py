"""Images for tests, made of bytes: layers with whatever an engine may write into one, in both forms and every compression."""

import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pretend

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SITE = "usr/local/lib/python3.12/dist-packages"


@dataclass(frozen=True, kw_only=True)
class Item:
    """One member of a layer."""

    path: str
    content: bytes = b""
    kind: str = "file"
    target: str = ""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0


def folder(path: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> Item:
    return Item(path=path, kind="folder", mode=mode, uid=uid, gid=gid)


def link(path: str, target: str) -> Item:
    return Item(path=path, kind="link", target=target)


def hard(path: str, target: str) -> Item:
    return Item(path=path, kind="hard", target=target)


def files(
    root: str, contents: Mapping[str, bytes], *, mode: int = 0o644, uid: int = 0, gid: int = 0
) -> list[Item]:
    return [
        Item(path=f"{root}/{path}", content=content, mode=mode, uid=uid, gid=gid)
        for path, content in contents.items()
    ]


def python(prefix: str = "usr", version: str = "3.12") -> list[Item]:
    """An interpreter, as far as a file system shows it."""
    return [
        Item(path=f"{prefix}/bin/python{version}", content=b"\x7fELF", mode=0o755),
        link(f"{prefix}/bin/python3", f"python{version}"),
    ]


def vllm(site: str = SITE, version: str = "0.17.1", *, uid: int = 0, gid: int = 0) -> list[Item]:
    """An installed vLLM with its metadata, and torch's."""
    package = pretend.package(version)
    contents = {
        **package,
        **pretend.dist_info("vllm", version, package, requires=("torch==2.10.0",)),
        **pretend.dist_info("torch", "2.10.0", {}),
    }
    return files(site, contents, uid=uid, gid=gid)


def layer(items: Iterable[Item]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for item in items:
            member = tarfile.TarInfo(item.path)
            member.mode, member.uid, member.gid = item.mode, item.uid, item.gid
            match item.kind:
                case "folder":
                    member.type = tarfile.DIRTYPE
                case "link":
                    member.type, member.linkname = tarfile.SYMTYPE, item.target
                case "hard":
                    member.type, member.linkname = tarfile.LNKTYPE, item.target
                case _:
                    member.size = len(item.content)
            archive.addfile(member, io.BytesIO(item.content))
    return stream.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, 1, mtime=0)


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": _gzip,
    "zstd": zstd.compress,
}


@dataclass(kw_only=True)
class Image:
    """Layers and settings."""

    layers: Sequence[bytes]
    settings: Mapping[str, Any] = field(default_factory=dict)
    architecture: str = "amd64"
    name: str = "vllm-node:latest"
    variant: str = ""

    @classmethod
    def of(cls, *layers: Iterable[Item], **more: Any) -> "Image":
        return cls(layers=[layer(items) for items in layers], **more)

    def config(self) -> bytes:
        value = {
            "architecture": self.architecture,
            "os": "linux",
            "created": "2026-01-01T00:00:00Z",
            "config": dict(self.settings),
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{sha256(each)}" for each in self.layers],
            },
            "history": [{"created_by": "a test"} for _ in self.layers],
        }
        if self.variant:
            value["variant"] = self.variant
        return json.dumps(value).encode()

    def blobs(self, packed: str = "plain") -> tuple[dict[str, bytes], dict[str, Any]]:
        """Give content by digest, and the descriptor of the manifest."""
        config = self.config()
        stored = [PACKERS[packed](each) for each in self.layers]
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": described(config, "application/vnd.oci.image.config.v1+json"),
                "layers": [
                    described(each, "application/vnd.oci.image.layer.v1.tar") for each in stored
                ],
            }
        ).encode()
        contents = {sha256(each): each for each in (config, manifest, *stored)}
        descriptor = {
            **described(manifest, "application/vnd.oci.image.manifest.v1+json"),
            "platform": {"os": "linux", "architecture": self.architecture},
            "annotations": {"org.opencontainers.image.ref.name": self.name},
        }
        return contents, descriptor


def described(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{sha256(content)}", "size": len(content)}


def layout_files(*images: Image, packed: str = "plain") -> dict[str, bytes]:
    contents: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    descriptors: list[dict[str, Any]] = []
    for image in images:
        blobs, descriptor = image.blobs(packed)
        contents |= {f"blobs/sha256/{name}": content for name, content in blobs.items()}
        descriptors.append(descriptor)
    contents["index.json"] = json.dumps({"schemaVersion": 2, "manifests": descriptors}).encode()
    return contents


def write_layout(place: Path, *images: Image, packed: str = "plain") -> Path:
    return pretend.write_tree(place, layout_files(*images, packed=packed))


def docker_files(*images: Image) -> dict[str, bytes]:
    """What `docker save` of 20.10 writes: a folder a layer, the configuration beside, the list last."""
    contents: dict[str, bytes] = {}
    told: list[dict[str, Any]] = []
    for image in images:
        config = image.config()
        names: list[str] = []
        for number, each in enumerate(image.layers):
            name = f"{sha256(each + bytes([number]))}/layer.tar"
            contents[name.replace("layer.tar", "VERSION")] = b"1.0"
            contents[name] = each
            names.append(name)
        contents[f"{sha256(config)}.json"] = config
        told.append({"Config": f"{sha256(config)}.json", "RepoTags": [image.name], "Layers": names})
    contents["manifest.json"] = json.dumps(told).encode()
    return contents


def write_archive(place: Path, contents: Mapping[str, bytes], packed: str = "plain") -> Path:
    place.write_bytes(PACKERS[packed](layer(files(".", contents))))
    return place
