# A plan proposes; what the user accepts is chosen to the last wheel, and the plan is judged again as if it were there.
"""Take accepted distributions into a plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_graft.deps.accepted import (
    accepted_decisions,
    accepted_requirement,
    broken_pins,
    news,
    placed,
    with_wheels,
)
from vllm_graft.deps.environment import model_environment
from vllm_graft.deps.rung import with_findings
from vllm_graft.errors import RequestError
from vllm_graft.link.plan import LinkSession
from vllm_graft.run.console import Console
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.model import ModelDescription
from vllm_graft.values.plan import GraftPlan
from vllm_graft.workflows.judge_pins import published_releases, with_pins
from vllm_graft.workflows.lock_wheels import lock_wheels


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What was linked, and what of the proposals is accepted."""

    session: LinkSession
    linked: GraftPlan
    """Before its pins were judged."""
    words: Sequence[str]
    model: ModelDescription | None = None


def refuse_without_image(base: Install, words: Sequence[str]) -> None:
    """Refuse early to accept anything for a base whose platform and interpreter are not known.

    Raises:
        RequestError: E204.
    """
    if words and base.image is None:
        raise RequestError(
            f"--accept needs an image to choose wheels for, and {base.source} is none",
            remedy="give the base as docker:IMAGE, registry:, oci: or archive:; a folder's environment is changed with its"
            " own pip",
            code="E204",
        )


def with_accepted(
    plan: GraftPlan, acceptance: Acceptance, *, environment: Environment, console: Console
) -> GraftPlan:
    """Give the plan with the accepted distributions in it, to the last wheel; as it is where nothing is accepted or lacking.

    Raises:
        RequestError: E204, that cannot be accepted.
        SourceError: E312, E313, E316, E317, no wheels can be had for this image.
    """
    if not acceptance.words:
        return plan
    base = acceptance.session.base
    assert base.image is not None, "refused before"
    asked = tuple(accepted_requirement(each, plan.dependencies) for each in acceptance.words)
    wheels = lock_wheels(base.image, base, asked, environment=environment)
    if not wheels:
        console.tell(f"{' and '.join(asked)}: the image has it already, nothing is added")
        return plan
    control = model_environment(base)
    broken = broken_pins(control, wheels)
    wheels = placed(wheels, broken)
    published = published_releases()
    requires = {f"transformers=={each.version}": tuple(each.requires) for each in published.every()}
    judged = with_pins(
        acceptance.session,
        acceptance.linked,
        model=acceptance.model,
        changed=with_wheels(base, wheels, requires),
    )
    decided = replace(
        judged,
        dependencies=accepted_decisions(plan.dependencies, wheels, broken, asked),
        wheels=wheels,
    )
    return with_findings(decided, news(broken, wheels))
