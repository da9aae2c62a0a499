# A wheel instead of a layer, for those whose vLLM may not be touched: the grafted modules in a package of their own, and
# one function that vLLM calls in each of its processes. The wheel requires no vLLM by name: pip would fetch one, where the
# one that is there is another build of it. It looks instead, and registers nothing where the version is another.
"""A plan as a plugin of vLLM."""

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.version import InvalidVersion, Version

from vllm_graft.image.layer import overlay_version
from vllm_graft.link.extension_points import PLUGIN_GROUP
from vllm_graft.link.plugin_entries import PluginEntry
from vllm_graft.link.relocate import Relocated
from vllm_graft.values.codec import encode_plan
from vllm_graft.values.plan import GraftPlan

_TIME = (1980, 1, 1, 0, 0, 0)

_REGISTER = '''\
# Written by vllm-graft: {names} of vLLM {donor}, for vLLM {base}.
"""Registers {names} with vLLM {base}."""

import logging

_WANTED = "{base}"


def register() -> None:
    """Register what this package holds; vLLM calls this in each of its processes."""
    import vllm

    found = vllm.__version__.partition("+")[0]
    if found != _WANTED:
        logging.getLogger("vllm.{package}").warning(
            "{distribution} registers nothing: it was made for vLLM %s, and this is %s."
            " Remove it where this vLLM knows the model; else plan and build it again for this version.",
            _WANTED,
            vllm.__version__,
        )
        return
{lines}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A wheel before it is packed."""

    distribution: str
    version: str
    package: str
    documents: Mapping[str, bytes]
    """Path in the wheel → content, RECORD not among them."""
    requires: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Give the wheel's name. Source: PyPA binary distribution format, "File name convention"."""
        return f"{self.package}-{self.version}-py3-none-any.whl"

    @property
    def info(self) -> str:
        """Give the folder of the metadata."""
        return f"{self.package}-{self.version}.dist-info"


def plugin_package(plan: GraftPlan) -> str:
    """Give the name of the package: that of the first architecture, so that a later build replaces an earlier one."""
    first = re.sub(r"\W+", "_", plan.architectures[0].lower(), flags=re.ASCII)
    return f"vllm_graft_plugin_{first}"


def supported_version(plan: GraftPlan) -> str:
    """Give the version of vLLM that the plugin is for, without the part that names a build."""
    try:
        return Version(plan.base.version).public
    except InvalidVersion:
        return plan.base.version.partition("+")[0]


def make_plugin(
    plan: GraftPlan, modules: Sequence[Relocated], entries: Iterable[PluginEntry], package: str
) -> Plugin:
    """Put the wheel together."""
    distribution, version = package.replace("_", "-"), overlay_version(plan)
    requires = tuple(
        sorted(
            each.proposed
            for each in plan.dependencies
            if each.decision in {"upgrade", "add"} and each.proposed
        )
    )
    names = ", ".join(plan.architectures)
    entry = _REGISTER.format(
        names=names,
        donor=plan.donor.version,
        base=supported_version(plan),
        package=package,
        distribution=distribution,
        lines="".join(_registration(each) for each in entries).rstrip("\n"),
    )
    documents = {each.path: each.text.encode() for each in modules}
    documents[f"{package}/__init__.py"] = entry.encode()
    for path in list(documents):
        for above in PurePosixPath(path).parents:
            if str(above) != ".":
                documents.setdefault(f"{above}/__init__.py", b"")
    plugin = Plugin(
        distribution=distribution,
        version=version,
        package=package,
        documents=documents,
        requires=requires,
    )
    metadata = (
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        f"Summary: {names} from vLLM {plan.donor.version} as a plugin of vLLM {supported_version(plan)}, by vllm-graft\n"
        "License: Apache-2.0\n" + "".join(f"Requires-Dist: {each}\n" for each in requires)
    )
    documents |= {
        f"{plugin.info}/METADATA": metadata.encode(),
        f"{plugin.info}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: vllm-graft\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        f"{plugin.info}/entry_points.txt": (
            f"[{PLUGIN_GROUP}]\n{package} = {package}:register\n".encode()
        ),
        f"{plugin.info}/plan.json": encode_plan(plan),
    }
    return plugin


def _registration(entry: PluginEntry) -> str:
    """Write one registration, indented."""
    # A class of the base's own package is named by its name alone, as in the base's own table.
    symbol = entry.symbol if entry.module and "{class}" in entry.point.line else f'"{entry.symbol}"'
    line = entry.point.line
    if entry.module and "{class}" in line:
        line = f"from {entry.module} import {entry.symbol}\n{line}"
    for word, written in {
        "name": f'"{entry.name}"',
        "target": f'"{entry.module}:{entry.symbol}"',
        "module": f'"{entry.module}"',
        "symbol": f'"{entry.symbol}"',
        "class": symbol,
    }.items():
        line = line.replace(f"{{{word}}}", written)
    return "".join(f"    {each}\n" for each in line.splitlines())


def encode_plugin(plugin: Plugin) -> bytes:
    """Give the wheel: stored, not compressed, since compressed bytes differ from one zlib to another."""
    rows = [
        f"{path},sha256={_hash(content)},{len(content)}\n"
        for path, content in sorted(plugin.documents.items())
    ]
    record = f"{plugin.info}/RECORD"
    documents = {**plugin.documents, record: "".join((*rows, f"{record},,\n")).encode()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # The metadata last, as the format recommends.
        for path in sorted(documents, key=lambda path: (path.startswith(plugin.info), path)):
            member = zipfile.ZipInfo(path, date_time=_TIME)
            member.create_system = 3
            member.external_attr = 0o100644 << 16
            archive.writestr(member, documents[path])
    return stream.getvalue()


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
