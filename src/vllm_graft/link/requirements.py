# Rule 7: dependencies are a decision. Nothing is upgraded by default; what grafted code imports from outside is
# held against what the base's own code imports and what its METADATA asks for, and the pins are told, not changed.
"""Decisions about the distributions that grafted code imports."""

from collections.abc import Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from vllm_graft.link.linked import Linked
from vllm_graft.link.packages import (
    Imported,
    imported_in_functions,
    imported_with_modules,
    read_from_packages,
)
from vllm_graft.values.finding import Finding
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


_STEADY = frozenset({"torch"})
"""Packages whose names stay for years: that nothing in the base uses one of them says nothing."""


def check_requirements(
    linked: Linked, base: Install, donor: Install
) -> tuple[tuple[Finding, ...], tuple[DependencyDecision, ...]]:
    """Decide about every distribution that grafted modules import unguarded.

    Order: both by name of the distribution.
    """
    by_package = _of_each_package(linked, base, donor)
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


def _of_each_package(linked: Linked, base: Install, donor: Install) -> dict[str, list[Imported]]:
    """What is taken of each package: of one that the base uses, what is imported with a module, and names behind it.

    A name is doubtful only where the donor does not ask for the very versions that the base asks for.
    """
    base_pins, donor_pins = _pins(base), _pins(donor)
    found: dict[str, list[Imported]] = {}
    for imported in imported_with_modules(linked):
        found.setdefault(imported.package, []).append(imported)
    for imported in imported_in_functions(linked):
        if not _is_used(base, imported.package):
            found.setdefault(imported.package, []).append(imported)
    for read in read_from_packages(linked):
        distribution = _distribution(read.package, base_pins, donor_pins)
        pins = base_pins.get(distribution), donor_pins.get(distribution)
        is_asked_alike = pins[0] is not None and pins[0] == pins[1]
        if read.package in found and read.package not in _STEADY and not is_asked_alike:
            found[read.package].append(read)
    return found


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


def _unknown_to(files: Files, imported: list[Imported]) -> tuple[Imported, ...]:
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
    distribution: str, found: str, wanted: str, imported: list[Imported]
) -> DependencyDecision:
    return DependencyDecision(
        name=distribution,
        decision="keep",
        found=found,
        wanted=f"{distribution}{wanted}" if wanted else "",
        reason=f"all {len(imported)} names that grafted code imports from it are used by the base too",
    )


def _doubtful(
    distribution: str, found: str, wanted: str, new: tuple[Imported, ...]
) -> DependencyDecision:
    return DependencyDecision(
        name=distribution,
        decision="keep",
        found=found,
        wanted=f"{distribution}{wanted}" if wanted else "",
        reason=f"not upgraded; nothing in the base uses {_listed(new)}, so its version must be seen"
        " to have it",
    )


def _doubt(distribution: str, found: str, wanted: str, new: tuple[Imported, ...]) -> Finding:
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


def _probe(imported: Imported) -> str:
    if imported.name:
        return f"from {imported.module} import {imported.name}"
    return f"import {imported.module}"


def _listed(new: tuple[Imported, ...], most: int = 3) -> str:
    shown = [f"{i.module}.{i.name}" if i.name else i.module for i in new]
    rest = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {rest} more" if rest > 0 else "")
