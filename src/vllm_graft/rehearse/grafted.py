# What an install says of its own graft: the plan that lies in it. Only what the gates hold against the install is read of it,
# so that a plan of another version of this program serves too.
"""What was grafted into an install."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from vllm_graft.errors import VerificationError
from vllm_graft.values.digest import Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Grafted:
    """What was put into an install."""

    known: bool
    """Whether the install says so itself; else it may have been changed by hand."""
    architectures: tuple[str, ...] = ()
    """Those of drafts too."""
    features: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path → SHA-256 in hex, of every file that was added or edited."""
    before: Mapping[str, str] = field(default_factory=dict[str, str])
    """Likewise, of what the base had at the place of an edited one."""
    added: tuple[str, ...] = ()
    """Paths of those that the base did not have."""


NOTHING_KNOWN = Grafted(known=False)


def read_grafted(plans: Sequence[bytes], *, where: str) -> Grafted:
    """Read the plans that lie in an install; later ones stand above earlier ones.

    Raises:
        VerificationError: E640, one of them is no plan.
    """
    if not plans:
        return NOTHING_KNOWN
    architectures: list[str] = []
    features: list[str] = []
    digests: dict[str, str] = {}
    before: dict[str, str] = {}
    added: list[str] = []
    try:
        for content in plans:
            told = cast("Mapping[str, Any]", json.loads(content))
            architectures += told["architectures"]
            features += told["features"]
            for module in told["modules"]:
                digests[module["path"]] = Digest.of(module["text"].encode()).hex
                added.append(module["path"])
            for edit in told["edits"]:
                digests[edit["path"]] = Digest.parse(edit["after"]).hex
                before[edit["path"]] = Digest.parse(edit["before"]).hex
    except (ValueError, KeyError, TypeError) as error:
        raise VerificationError(
            f"the plan in {where} cannot be read ({error!r})",
            remedy="build it anew from its plan: nothing can be held against what it says of itself",
            code="E640",
        ) from error
    return Grafted(
        known=True,
        architectures=tuple(dict.fromkeys(architectures)),
        features=tuple(dict.fromkeys(features)),
        files=digests,
        before=before,
        added=tuple(dict.fromkeys(added)),
    )
