# Rule 7: dependencies are a decision. Nothing is upgraded by default; what grafted code imports from outside is
# held against what the base's own code imports and what its METADATA asks for, and the pins are told, not changed.
"""Decisions about the distributions that grafted code imports."""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from vllm_graft.link.index import Index, is_inside
from vllm_graft.link.linked import Linked, is_elsewhere
from vllm_graft.link.symbols import flatten
from vllm_graft.values.finding import Finding, Site
from vllm_graft.values.install import Files, Install
from vllm_graft.values.plan import DependencyDecision

# Import names whose distribution is called otherwise. Source: Requires-Dist of vLLM 0.11 to 0.32.
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
    "sklearn": "scikit-learn",
    "flashinfer": "flashinfer-python",
    "google": "protobuf",
}


@dataclass(frozen=True, slots=True)
class _Imported:
    """A name that a grafted module takes from outside vLLM as it is imported."""

    package: str
    """Top-level import name."""
    module: str
    name: str
    """Empty where the module itself is imported."""
    site: Site


def check_requirements(
    linked: Linked, base: Install, donor: Install
) -> tuple[tuple[Finding, ...], tuple[DependencyDecision, ...]]:
    """Decide about every distribution that grafted modules import unguarded.

    Order: both by name of the distribution.
    """
    by_package: dict[str, list[_Imported]] = {}
    for imported in _imports(linked):
        by_package.setdefault(imported.package, []).append(imported)
    base_pins, donor_pins = _pins(base), _pins(donor)
    findings: list[Finding] = []
    decisions: list[DependencyDecision] = []
    for package in sorted(by_package, key=str.lower):
        distribution = _distribution(package, base_pins, donor_pins)
        new = _unknown_to(base.files, by_package[package])
        wanted = donor_pins.get(distribution, "")
        found = _found(base, distribution, base_pins)
        is_used = _is_used(base, package)
        if not new and is_used:
            decisions.append(_keep(distribution, found, wanted, by_package[package]))
            continue
        if is_used:
            decisions.append(_doubtful(distribution, found, wanted, new))
            findings.append(_doubt(distribution, found, wanted, new))
            continue
        first = by_package[package][0]
        # What the donor's release asks for by name can be added; nothing tells where anything else comes from.
        can_be_added = distribution in donor_pins
        decisions.append(
            DependencyDecision(
                name=distribution,
                decision="add" if can_be_added else "missing",
                found=found,
                wanted=wanted,
                reason=f"{first.site.path} imports {package}; nothing in the base does",
            )
        )
        findings.append(
            Finding(
                code="G211",
                severity="review" if found or can_be_added else "blocked",
                site=first.site,
                wanted=f"the package {package}" + (f" ({distribution}{wanted})" if wanted else ""),
                found=f"nothing in the base imports it{f'; it asks for {found}' if found else ''}",
                remedy=f"add {distribution}{wanted} to the base image, or see that it is there",
            )
        )
    return tuple(findings), tuple(decisions)


def _imports(linked: Linked) -> Iterator[_Imported]:
    donor = linked.decisions.donor
    for module in sorted(linked.decisions.taken):
        for item in flatten(donor.tree(module).body):
            if item.guard in {"try", "except", "TYPE_CHECKING"} or is_elsewhere(item.guard):
                continue
            yield from _imports_of(donor, module, item.node)


def _imports_of(donor: Index, module: str, node: ast.stmt) -> Iterator[_Imported]:
    site = Site(install="donor", path=donor.path_of(module) or module, line=node.lineno)
    if isinstance(node, ast.Import):
        pairs = [(alias.name, "") for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        pairs = [(node.module, alias.name) for alias in node.names]
    else:
        return
    for source, name in pairs:
        top = source.partition(".")[0]
        if not is_inside(source) and top not in sys.stdlib_module_names:
            yield _Imported(top, source, name, site)


def _pins(install: Install) -> Mapping[str, str]:
    """Specifiers that vLLM itself asks for: distribution → specifier, extras left out."""
    pins: dict[str, str] = {}
    for distribution in install.distributions:
        if not distribution.name.startswith("vllm"):
            continue
        for line in distribution.requires:
            try:
                requirement = Requirement(line)
            except InvalidRequirement:
                continue
            if requirement.marker is not None and "extra" in str(requirement.marker):
                continue
            pins.setdefault(str(canonicalize_name(requirement.name)), str(requirement.specifier))
    return pins


def _distribution(package: str, *pins: Mapping[str, str]) -> str:
    named = _DISTRIBUTIONS.get(package, str(canonicalize_name(package)))
    for known in pins:
        if named in known:
            return named
    return named


def _found(base: Install, distribution: str, pins: Mapping[str, str]) -> str:
    """Version that the base has, else what it asks for; empty where neither is told."""
    for installed in base.distributions:
        if installed.name == distribution:
            return installed.version
    if distribution in pins:
        return f"{distribution}{pins[distribution]}"
    return ""


def _is_used(base: Install, package: str) -> bool:
    """Tell whether the base's own vLLM imports a package, or has it installed."""
    name = _DISTRIBUTIONS.get(package, str(canonicalize_name(package)))
    return (
        any(d.name == name for d in base.distributions)
        or base.files.mention(f"import {package}".encode())
        or base.files.mention(f"from {package}".encode())
    )


def _unknown_to(files: Files, imported: list[_Imported]) -> tuple[_Imported, ...]:
    """Imports whose module or name no file of the base mentions."""
    return tuple(
        dict.fromkeys(
            i
            for i in imported
            if not files.mention(i.module.encode())
            or (i.name and i.name != "*" and not files.mention(i.name.encode()))
        )
    )


def _keep(
    distribution: str, found: str, wanted: str, imported: list[_Imported]
) -> DependencyDecision:
    return DependencyDecision(
        name=distribution,
        decision="keep",
        found=found,
        wanted=f"{distribution}{wanted}" if wanted else "",
        reason=f"all {len(imported)} names that grafted code imports from it are used by the base too",
    )


def _doubtful(
    distribution: str, found: str, wanted: str, new: tuple[_Imported, ...]
) -> DependencyDecision:
    return DependencyDecision(
        name=distribution,
        decision="keep",
        found=found,
        wanted=f"{distribution}{wanted}" if wanted else "",
        reason=f"not upgraded; nothing in the base uses {_listed(new)}, so its version must be seen"
        " to have it",
    )


def _doubt(distribution: str, found: str, wanted: str, new: tuple[_Imported, ...]) -> Finding:
    asks = f"; the donor asks for {distribution}{wanted}" if wanted else ""
    return Finding(
        code="G402",
        severity="review",
        site=new[0].site,
        wanted=f"{distribution} with {_listed(new)}",
        found=f"nothing in the base uses that{f'; the base has or asks for {found}' if found else ''}"
        f"{asks}",
        remedy=f"run python -c '{_probe(new[0])}' in the base; if it fails, this donor needs a newer"
        f" {distribution} than the base has",
    )


def _probe(imported: _Imported) -> str:
    if imported.name:
        return f"from {imported.module} import {imported.name}"
    return f"import {imported.module}"


def _listed(new: tuple[_Imported, ...], most: int = 3) -> str:
    shown = [f"{i.module}.{i.name}" if i.name else i.module for i in new]
    rest = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {rest} more" if rest > 0 else "")
