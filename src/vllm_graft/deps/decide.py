# Nothing is upgraded by default. Each need of the grafted code is held against the transformers that the base has; where
# the base is a wheel, against every published release that its pins allow. If all needs are met, nothing is done. If not,
# the smallest change that would meet them is proposed, with the pins that it breaks: an upgrade where it breaks none,
# else a copy beside the base's, so that everything else in the image keeps what it was made for.
"""Decide about the base's transformers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vllm_graft.deps.conflicts import Forecast, forecast_change, with_pinned
from vllm_graft.deps.environment import Demand, ModelledEnvironment
from vllm_graft.deps.needs import CONFIG_FILE, PACKAGE, Need
from vllm_graft.deps.releases import PublishedReleases, is_newer, render_versions
from vllm_graft.deps.transformers_facts import TransformersFacts
from vllm_graft.values.finding import Finding, Severity
from vllm_graft.values.install import Distribution
from vllm_graft.values.plan import DependencyDecision

_SHOWN = 3
_CONTRACT = frozenset({"call", "config member", "set argument"})
_CHECKPOINT = frozenset({"model type", "class", "layer type"})


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is decided on."""

    environment: ModelledEnvironment
    """The base's."""
    donor: ModelledEnvironment
    installed: TransformersFacts | None
    """The base's own transformers; None where there is none, or nobody told what it has."""
    published: PublishedReleases
    is_stated: bool = False
    """Whether the base's transformers is there by the user's word: a wheel has none."""

    @cached_property
    def candidates(self) -> tuple[TransformersFacts, ...]:
        """Give what the base has, or may have: its own, else each release that its pins allow."""
        if self.installed is not None:
            return (self.installed,)
        if self.environment.version(PACKAGE):
            return ()
        demands = self.environment.asking(PACKAGE)
        return self.published.allowed(each.specifier for each in demands)

    @property
    def found(self) -> str:
        """Say what the base has or asks for."""
        if version := self.environment.version(PACKAGE):
            return f"{version}, as said by --with" if self.is_stated else version
        return ", ".join(
            f"{PACKAGE}{each.specifier}" for each in self._own_demands(self.environment)
        )

    @property
    def wanted(self) -> str:
        """Say what the donor asks for."""
        return ", ".join(f"{PACKAGE}{each.specifier}" for each in self._own_demands(self.donor))

    @cached_property
    def donors(self) -> frozenset[str]:
        """Releases that the donor's pins allow."""
        demands = self.donor.asking(PACKAGE)
        if not demands:
            return frozenset()
        return frozenset(
            each.version for each in self.published.allowed(d.specifier for d in demands)
        )

    @staticmethod
    def _own_demands(environment: ModelledEnvironment) -> Iterator[Demand]:
        return (each for each in environment.asking(PACKAGE) if each.by.startswith("vllm"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decision, and what there is to say about it."""

    dependency: DependencyDecision
    findings: tuple[Finding, ...]
    settled: bool
    """Whether every need was answered, so that no doubt is left about names."""
    on: str
    """What it was decided on."""


def decide_transformers(needs: Sequence[Need], situation: Situation) -> Decided:
    """Decide whether the base's transformers will do for these needs."""
    candidates = situation.candidates
    on = _on(situation, candidates)
    answers = {need: tuple(need.met_by(each) for each in candidates) for need in needs}
    untold = [need for need, told in answers.items() if _is_untold(need, told)]
    if not candidates:
        untold = list(needs)
    unmet = {
        need: tuple(
            each for each, told in zip(candidates, answers[need], strict=True) if told is False
        )
        for need in needs
        if False in answers[need]
    }
    if not unmet:
        reason = (
            f"all {len(needs)} things that grafted code needs of it are there: {on}"
            if not untold
            else f"not upgraded; nothing tells whether it has {_listed(untold)}"
        )
        return Decided(
            dependency=_decision("keep", situation, reason),
            findings=(),
            settled=not untold,
            on=on,
        )
    change = _smallest_change(needs, situation, candidates)
    findings = tuple(_findings(unmet, situation, candidates, change))
    if situation.installed is None:
        holding = render_versions(_holding(unmet, candidates), situation.published.versions)
        on = f"{on}; it holds for {holding}"
    return Decided(
        dependency=_proposal(unmet, situation, candidates, change),
        findings=findings,
        settled=not untold,
        on=on,
    )


def _is_untold(need: Need, told: Iterable[bool | None]) -> bool:
    # A call whose callee is a class, or has decorators, is not judged; whether the name is there is.
    return need.kind != "call" and None in told


def _on(situation: Situation, candidates: Sequence[TransformersFacts]) -> str:
    if situation.installed is not None:
        told_by = situation.installed.told_by
        return f"{told_by}, as said by --with" if situation.is_stated else told_by
    if situation.environment.version(PACKAGE):
        return f"transformers {situation.environment.version(PACKAGE)}, of which nothing is known"
    if not candidates:
        return "an environment with transformers"
    shown = render_versions((each.version for each in candidates), situation.published.versions)
    return f"every release that {situation.found} allows: {shown}"


# ── what would meet the needs ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    version: str
    forecast: Forecast
    is_allowed: bool
    """Whether the base's own pins allow it."""


def _smallest_change(
    needs: Sequence[Need], situation: Situation, candidates: Sequence[TransformersFacts]
) -> _Change | None:
    """Find the release nearest to what the base has that meets every need; those that the donor allows first."""
    meeting = [
        each
        for each in situation.published.every()
        if all(need.met_by(each) is not False for need in needs)
    ]
    if not meeting:
        return None
    allowed = {each.version for each in candidates} if situation.installed is None else set[str]()
    have = situation.environment.version(PACKAGE)
    newer = [each for each in meeting if not have or is_newer(each.version, have)]
    ordered = sorted(
        newer or meeting[::-1],
        key=lambda each: (each.version not in allowed, each.version not in situation.donors),
    )
    chosen = ordered[0]
    environment = with_pinned(situation.environment, situation.published.others)
    if environment.alone and candidates:  # as an index would fill it today
        newest = candidates[-1]
        assumed = Distribution(name=PACKAGE, version=newest.version, requires=newest.requires)
        environment = replace(
            environment, distributions={**environment.distributions, PACKAGE: assumed}
        )
    return _Change(
        version=chosen.version,
        forecast=forecast_change(
            environment,
            Distribution(name=PACKAGE, version=chosen.version, requires=chosen.requires),
        ),
        is_allowed=chosen.version in allowed,
    )


def _proposal(
    unmet: Mapping[Need, Sequence[TransformersFacts]],
    situation: Situation,
    candidates: Sequence[TransformersFacts],
    change: _Change | None,
) -> DependencyDecision:
    needed = f"needed for {_listed(unmet)}"
    if change is None:
        return _decision("missing", situation, f"no published release will do; {needed}")
    if change.is_allowed:
        holding = _holding(unmet, candidates)
        shown = render_versions(holding, situation.published.versions)
        return _decision("keep", situation, f"see that the base has {shown}; {needed}")
    proposed = f"{PACKAGE}=={change.version}"
    if not change.forecast.breaks:
        chain = "".join(f"; {each}" for each in change.forecast.follows)
        reason = f"{proposed} breaks no pin{chain}; {needed}"
        return replace(_decision("upgrade", situation, reason), proposed=proposed)
    reason = f"{proposed} in place of the base's would break pins: {'; '.join(change.forecast.chain)}; {needed}"
    return replace(_decision("side by side", situation, reason), proposed=proposed)


def _decision(word: str, situation: Situation, reason: str) -> DependencyDecision:
    return DependencyDecision(
        name=PACKAGE,
        decision=word,  # pyright: ignore[reportArgumentType] literals above
        found=situation.found,
        wanted=situation.wanted,
        reason=reason,
    )


def _holding(
    unmet: Mapping[Need, Sequence[TransformersFacts]], candidates: Sequence[TransformersFacts]
) -> tuple[str, ...]:
    lacking = {each.version for several in unmet.values() for each in several}
    return tuple(each.version for each in candidates if each.version not in lacking)


# ── findings ──────────────────────────────────────────────────────────────────────────────────────


def _findings(
    unmet: Mapping[Need, Sequence[TransformersFacts]],
    situation: Situation,
    candidates: Sequence[TransformersFacts],
    change: _Change | None,
) -> Iterator[Finding]:
    """Give one finding for all needs that the same releases leave unmet in the same way."""
    groups: dict[tuple[str, tuple[str, ...]], list[Need]] = {}
    for need, lacking in unmet.items():
        key = (_code(need), tuple(each.version for each in lacking))
        groups.setdefault(key, []).append(need)
    for (code, versions), needs in groups.items():
        lacking = unmet[needs[0]]
        is_part = len(versions) < len(candidates)
        yield Finding(
            code="G404" if is_part else code,
            severity=_severity(needs, lacking, situation, candidates, change),
            site=needs[0].site,
            wanted=f"{PACKAGE} with {_listed(needs)}",
            found=_found(needs, lacking, situation, candidates),
            remedy=_remedy(needs, situation, change),
        )


def _code(need: Need) -> str:
    if need.kind in _CONTRACT:
        return "G405"
    return "G406" if need.kind in _CHECKPOINT else "G403"


def _severity(
    needs: Sequence[Need],
    lacking: Sequence[TransformersFacts],
    situation: Situation,
    candidates: Sequence[TransformersFacts],
    change: _Change | None,
) -> Severity:
    if change is None:
        return "blocked"
    versions = {each.version for each in lacking}
    newest = candidates[-1].version
    # The donor is the control: where its own pins allow releases in which it fails itself, and all of them are
    # older than those that will do, its pin is loose and nobody has run it there.
    loose = newest not in versions and versions <= situation.donors
    oldest_first = all(
        is_newer(each.version, old)
        for each in candidates
        if each.version not in versions
        for old in versions
    )
    return "note" if loose and oldest_first and needs else "review"


def _found(
    needs: Sequence[Need],
    lacking: Sequence[TransformersFacts],
    situation: Situation,
    candidates: Sequence[TransformersFacts],
) -> str:
    first = lacking[0]
    why = needs[0].lack(first)
    among = situation.published.versions
    if situation.installed is not None:
        whose = "--with gives the base" if situation.is_stated else "the base has"
        return f"{whose} transformers {first.version}: {why}"
    shown = render_versions((each.version for each in lacking), among)
    if len(lacking) == len(candidates):
        return f"no release that the base's {situation.found} allows ({shown}) will do: {why}"
    holding = [each.version for each in candidates if each not in lacking]
    return (
        f"of the releases that the base's {situation.found} allows, {render_versions(holding, among)} will do,"
        f" {shown} will not: {why}"
    )


def _remedy(
    needs: Sequence[Need],
    situation: Situation,
    change: _Change | None,
) -> str:
    if change is None:
        return "no published transformers will do: use another donor"
    meeting = [
        each.version
        for each in situation.published.every()
        if all(need.met_by(each) for need in needs)
    ]
    have = render_versions(meeting, situation.published.versions)
    if any(need.kind == "model type" and need.site.path != CONFIG_FILE for need in needs):
        have += ", or a checkpoint that brings its own code (auto_map: --model shows),"
    if change.is_allowed:
        return f"see which transformers the base has: {have} will do"
    chain = change.forecast.chain
    told = f"; {'; '.join(chain)}" if chain else "; it breaks no pin of the base"
    where = "beside the base's" if change.forecast.breaks else "in place of the base's"
    return f"transformers {have} will do; {change.version} {where} is the smallest change{told}"


def _listed(needs: Iterable[Need]) -> str:
    shown = list(dict.fromkeys(need.wanted for need in needs))
    rest = len(shown) - _SHOWN
    return ", ".join(shown[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
