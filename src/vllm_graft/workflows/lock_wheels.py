# Wheels are chosen with uv and fetched with pip, each with the user's own configuration; what was fetched is kept by its
# digest, so that the same wheels can be had again without a network.
"""Choose and fetch the wheels that go into an image."""

from collections.abc import Mapping, Sequence

from vllm_graft.deps.wheels import (
    Asking,
    ask_versions,
    ask_wheels,
    bound_versions,
    changed_versions,
    hash_lines,
    hide_addresses,
    kept_versions,
    names_of,
    parse_requirements,
    parse_wheels,
    platform_tags,
    refuse_answer,
    refuse_bound,
    refuse_forged,
    stand_ins,
    target_of,
    with_image,
)
from vllm_graft.errors import SourceError
from vllm_graft.install.index_configuration import (
    uses_no_index,
    variables_for_pip,
    variables_for_uv,
)
from vllm_graft.install.pip import is_other_content, is_unreachable, plan_fetch_locked
from vllm_graft.run.archive import write_stand_in
from vllm_graft.run.cache import Cache
from vllm_graft.run.files import read_bytes, write_atomically
from vllm_graft.run.package_tool import find_pip, find_uv, pip_configuration, uv_configuration
from vllm_graft.run.process import run_command
from vllm_graft.run.workspace import files_in, workspace
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.image import ImageFacts
from vllm_graft.values.install import Install
from vllm_graft.values.wheels import LockedWheel, WheelTarget


def lock_wheels(
    facts: ImageFacts, install: Install, requirements: Sequence[str], *, environment: Environment
) -> tuple[LockedWheel, ...]:
    """Give the wheels that an image lacks for these requirements, and no others.

    What the image has is kept wherever it fits, and what it has for its GPU is never replaced.

    Raises:
        RequestError: E200, one is no requirement.
        SourceError: E312, it is not known for whom; E313, no index can be reached; E316, there is no uv, or it failed;
            E317, no wheels will do.
    """
    requirements = parse_requirements(requirements)
    target = target_of(facts, install)
    uv = find_uv(environment)
    if uv is None:
        raise SourceError(
            "there is no uv to choose wheels with",
            remedy="Install vllm-graft with its dependencies (pip install vllm-graft), or install uv.",
            code="E316",
        )
    asked = names_of(requirements)
    have = install.distributions
    variables = variables_for_uv(
        environment.variables,
        pip_files=pip_configuration(environment),
        uv_files=uv_configuration(environment),
    )
    with workspace() as folder:
        asking = Asking(
            uv=uv,
            target=target,
            folder=folder,
            python=environment.python,
            no_index=uses_no_index(variables),
        )
        variables = with_image(variables, folder)
        for file, members in stand_ins(have):
            write_stand_in(f"{folder}/image", file, members)
        bound = bound_versions(have, asked)
        write_atomically(f"{folder}/bound.txt", bound.encode())
        write_atomically(f"{folder}/versions.txt", kept_versions(have).encode())
        answer = run_command(ask_versions(asking, requirements), variables=variables)
        refuse_answer(answer, requirements, facts.reference, bound=bound)
        chosen = read_bytes(f"{folder}/versions.txt").decode("utf-8", "replace")
        changed = changed_versions(chosen, have)
        if not changed:
            return ()
        answer = run_command(ask_wheels(asking, changed), variables=variables)
        refuse_answer(answer, requirements, facts.reference)
    wheels = parse_wheels(answer.stdout, target, have)
    refuse_bound(wheels, have, asked)
    return wheels


def fetch_wheels(
    wheels: Sequence[LockedWheel], target: WheelTarget, *, environment: Environment, cache: Cache
) -> Mapping[Digest, bytes]:
    """Give the content of each of these wheels, by its digest; what is in the cache is not fetched.

    Raises:
        SourceError: E313, no index can be reached; E314, there is no pip; E315, pip could not fetch them; E318, the index
            has another file under that name.
        BuildError: E430, these are no wheels.
    """
    refuse_forged(wheels)
    found = {each.digest: content for each in wheels if (content := cache.get(each.digest))}
    lacking = [each for each in wheels if each.digest not in found]
    if not lacking:
        return found
    pip = find_pip(environment)
    if pip is None:
        raise SourceError(
            "neither pip nor uv is there to fetch with",
            remedy="Install pip for the Python that runs vllm-graft.",
            code="E314",
        )
    shown = ", ".join(each.file for each in lacking)
    cache.console.tell(f"fetching {shown}")
    variables = variables_for_pip(
        environment.variables,
        pip_files=pip_configuration(environment),
        uv_files=uv_configuration(environment),
    )
    with workspace() as folder:
        write_atomically(f"{folder}/locked.txt", hash_lines(lacking).encode())
        command = plan_fetch_locked(pip, target, platforms=platform_tags(target), folder=folder)
        ended = run_command(command, variables=variables)
        if not ended.passed:
            told = (ended.stdout + ended.stderr).decode("utf-8", "replace")
            raise _unfetched(shown, told, ended.last_lines(), ended.status)
        for path in files_in(folder, ".whl"):
            content = read_bytes(path)
            found[cache.put(content)] = content
    missing = [each.file for each in lacking if each.digest not in found]
    if missing:
        raise _unfetched(", ".join(missing), "", "pip ended well without it", 0)
    return found


def _unfetched(shown: str, told: str, last: str, status: int) -> SourceError:
    if is_other_content(told):
        return SourceError(
            f"your package index has another file than the one that was locked, among {shown}",
            remedy="Do not use it before you know why: a published file never changes. If your mirror builds its own"
            " files, plan again with it.",
            code="E318",
        )
    if is_unreachable(told):
        return SourceError(
            f"the package index cannot be reached to fetch {shown}",
            remedy="The cache has no copy. Connect, or see `pip config list` for index, proxy and certificate.",
            code="E313",
        )
    return SourceError(
        f"pip could not fetch {shown} (exit status {status}):\n{hide_addresses(last)}",
        remedy="See `pip config list`: the index that uv chose from has to be the one that pip fetches from.",
        code="E315",
    )
