# Fetching through the user's own pip. A release is asked for once: afterwards the cache answers, without a
# network, as long as pip's configuration is the same; with another configuration the index is asked again, and
# only if it cannot be reached does the cache answer.
"""Open a release of the package index."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vllm_graft.errors import SourceError
from vllm_graft.install.pip import is_unreachable, plan_fetch, plan_listing
from vllm_graft.install.wheel_choice import Choice, choose_wheel, parse_published
from vllm_graft.run.archive import digest_wheel
from vllm_graft.run.cache import Cache
from vllm_graft.run.package_tool import find_pip, pip_fingerprint
from vllm_graft.run.process import run_command
from vllm_graft.run.workspace import files_in, workspace
from vllm_graft.values.digest import Digest
from vllm_graft.values.environment import Environment
from vllm_graft.values.install import Install
from vllm_graft.values.source import PyPISource, SourceOptions
from vllm_graft.workflows.open_wheel import from_cache, keep, read_wheel


def open_release(
    source: PyPISource, *, options: SourceOptions, environment: Environment, cache: Cache
) -> Install:
    """Fetch the chosen wheel of a release, or take what the cache has of it.

    Raises:
        SourceError: E310 to E312 nothing fits; E313 the index cannot be reached and nothing is cached; E314
            there is no pip; E315 pip could not fetch it.
    """
    release = _Release(source=source, options=options, environment=environment, cache=cache)
    if (known := release.known(same_configuration=True)) is not None:
        return known
    with cache.lock(release.key):
        if (known := release.known(same_configuration=True)) is not None:
            return known
        return release.fetch()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    source: PyPISource
    options: SourceOptions
    environment: Environment
    cache: Cache

    @property
    def key(self) -> str:
        python = self.options.python
        shown = f"{python[0]}.{python[1]}" if python else "any"
        return f"{self.source} platform={self.options.platform or 'any'} python={shown}"

    def known(self, *, same_configuration: bool) -> Install | None:
        """Give what the cache has, if it was fetched as it would be now."""
        pointer = self.cache.lookup("releases", self.key)
        if pointer is None:
            return None
        if same_configuration and pointer.get("configuration") != self._configuration():
            return None
        try:
            wheel = Digest.parse(pointer.get("wheel", ""))
        except ValueError:
            return None
        install = self._from_cache(wheel, pointer.get("file", ""))
        if install is not None and pointer.get("told"):
            self.cache.console.tell(f"{self.source}: reading {pointer['told']}")
        return install

    def fetch(self) -> Install:
        """Ask the index, fetch, read, keep."""
        fallback = self.known(same_configuration=False)
        try:
            return self._fetch(patient=fallback is None)
        except SourceError as error:
            if fallback is None or error.code not in {"E313", "E314"}:
                raise
            self.cache.console.tell(f"{self.source}: {error.what}; the copy in the cache is used")
            return fallback

    def _fetch(self, *, patient: bool) -> Install:
        pip = find_pip(self.environment)
        if pip is None:
            raise SourceError(
                "neither pip nor uv is there to fetch with",
                remedy="Install pip for the Python that runs vllm-graft, or give wheel:FILE.whl.",
                code="E314",
            )
        with workspace() as folder:
            choice = self._choose(pip, folder, patient=patient)
            if choice.told:
                self.cache.console.tell(f"{self.source}: reading {choice.told}")
            self.cache.console.tell(f"{self.source}: fetching {choice.wheel.file}")
            wheel_path = self._download(pip, choice, folder)
            wheel = digest_wheel(wheel_path)
            install = self._from_cache(wheel, choice.wheel.file)
            if install is None:
                install = read_wheel(wheel_path, source=str(self.source))
                keep(self.cache, wheel, install)
        self.cache.remember("releases", self.key, self._pointer(choice, wheel))
        return replace(install, location=choice.wheel.file)

    def _choose(self, pip: "tuple[str, ...]", folder: str, *, patient: bool) -> Choice:
        variables = self.environment.variables
        asked = plan_listing(pip, self.source, variables, folder=folder, patient=patient)
        answer = run_command(asked, variables=variables)
        told = (answer.stdout + answer.stderr).decode("utf-8", "replace")
        published = parse_published(told, self.source.name)
        if not published and is_unreachable(told):
            raise SourceError(
                f"the package index cannot be reached to fetch {self.source}, and the cache has no copy",
                remedy="Connect, or see `pip config list` for index, proxy and certificate;"
                " without a network, give wheel:FILE.whl or path:DIR.",
                code="E313",
            )
        return choose_wheel(published, self.source, self.options)

    def _download(self, pip: "tuple[str, ...]", choice: Choice, folder: str) -> str:
        command = plan_fetch(pip, self.source, choice, folder)
        ended = run_command(command, variables=self.environment.variables)
        wheels = files_in(folder, ".whl")
        if ended.passed and wheels:
            return wheels[0]
        told = (ended.stdout + ended.stderr).decode("utf-8", "replace")
        raise SourceError(
            f"pip could not fetch {choice.wheel.file} (exit status {ended.status}):\n"
            f"{ended.last_lines()}",
            remedy=f"See what this says: {' '.join(command.argv)}",
            code="E313" if is_unreachable(told) else "E315",
        )

    def _from_cache(self, wheel: Digest, file: str) -> Install | None:
        return from_cache(self.cache, wheel, source=str(self.source), location=file)

    def _pointer(self, choice: Choice, wheel: Digest) -> Mapping[str, str]:
        return {
            "wheel": str(wheel),
            "file": choice.wheel.file,
            "told": choice.told,
            "configuration": self._configuration(),
        }

    def _configuration(self) -> str:
        return pip_fingerprint(self.environment)
