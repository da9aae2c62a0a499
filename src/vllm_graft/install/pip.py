# What pip is asked. It is the user's own pip, so that their index, mirror, credentials, certificates, proxy and
# find-links folders hold without being read here. pip has no verb that lists the files of a release, but at -vv
# it names every link that it considers; for a platform that does not exist it considers all and takes none.
"""The questions to pip: what is published, fetch this one, and fetch these by their digests."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from vllm_graft.install.wheel_choice import Choice
from vllm_graft.values.command import Command
from vllm_graft.values.source import PyPISource
from vllm_graft.values.wheels import WheelTarget

_NO_PLATFORM = "vllm_graft_asks_for_all"
_LISTING_TIMEOUT = timedelta(minutes=5)
_FETCH_TIMEOUT = timedelta(hours=2)
_UNREACHABLE = (
    "Retrying (Retry",
    "Could not fetch URL",
    "Max retries exceeded",
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "SSLError",
    "CERTIFICATE_VERIFY_FAILED",
    "Connection refused",
    "failed to establish",
)


def plan_listing(
    pip: tuple[str, ...],
    source: PyPISource,
    variables: Mapping[str, str],
    *,
    folder: str,
    patient: bool,
) -> Command:
    """Ask for every file of a distribution; the answer is in what pip tells, its status means nothing.

    Source: pip 22.3 to 25.3, ``LinkEvaluator.evaluate_link`` and ``PackageFinder`` debug lines ("Skipping
    link: …", "Found link …"), each with the file's address.
    """
    return Command(
        argv=(
            *pip, "download", "-vv", "--no-deps", "--only-binary", ":all:", "--no-input",
            "--disable-pip-version-check",
            "--platform", _NO_PLATFORM, "--python-version", "3.12", "--dest", folder,
            *_retries(variables, patient=patient), source.name,
        ),
        why=f"learn what wheels {source.name} publishes",
        timeout=_LISTING_TIMEOUT,
    )  # fmt: skip


def plan_fetch(pip: tuple[str, ...], source: PyPISource, choice: Choice, folder: str) -> Command:
    """Fetch exactly the chosen wheel into a folder."""
    wheel = choice.wheel
    platforms = tuple(word for tag in wheel.platform_tags for word in ("--platform", tag))
    implementation = "py" if wheel.interpreter.startswith("py") else "cp"
    return Command(
        argv=(
            *pip, "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet",
            "--disable-pip-version-check", "--progress-bar", "off", "--ignore-requires-python",
            *platforms, "--python-version", f"{choice.python[0]}.{choice.python[1]}",
            "--implementation", implementation, "--abi", wheel.abi, "--dest", folder,
            f"{source.name}=={wheel.version}",
        ),
        why=f"fetch {wheel.file}",
        timeout=_FETCH_TIMEOUT,
    )  # fmt: skip


def plan_fetch_locked(
    pip: tuple[str, ...], target: WheelTarget, *, platforms: Sequence[str], folder: str
) -> Command:
    """Fetch wheels that are named by their digests, in the ``locked.txt`` of a folder, into that folder."""
    return Command(
        argv=(
            *pip, "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet",
            "--disable-pip-version-check", "--progress-bar", "off", "--ignore-requires-python",
            "--require-hashes", "--requirement", f"{folder}/locked.txt",
            *(word for tag in platforms for word in ("--platform", tag)),
            "--python-version", f"{target.python[0]}.{target.python[1]}",
            "--implementation", "cp", "--abi", f"cp{target.python[0]}{target.python[1]}",
            "--dest", folder,
        ),
        why="fetch the wheels that go into the image",
        timeout=_FETCH_TIMEOUT,
    )  # fmt: skip


def _retries(variables: Mapping[str, str], *, patient: bool) -> tuple[str, ...]:
    # pip tries five times with growing pauses. Where the cache can answer instead, once is enough.
    if not patient:
        return ("--retries", "0", "--timeout", "10")
    return () if "PIP_RETRIES" in variables else ("--retries", "2")


def is_unreachable(told: str) -> bool:
    """Tell whether pip could not reach an index, as opposed to finding nothing there."""
    return any(sign in told for sign in _UNREACHABLE)


def is_other_content(told: str) -> bool:
    """Tell whether pip fetched a file whose digest is not the one that was asked for.

    Source: pip 23.2, ``HashMismatch``.
    """
    return "DO NOT MATCH THE HASHES" in told


def is_no_match(told: str) -> bool:
    """Tell whether pip looked and found nothing that fits: what a listing always ends with."""
    return "No matching distribution found" in told
