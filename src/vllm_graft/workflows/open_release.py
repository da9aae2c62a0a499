# Fetching through the user's own pip. A release is asked for once: afterwards the cache answers, without a
# network, as long as pip's configuration is the same; with another configuration the index is asked again, and
# only if it has no answer does the cache give one.
"""Open a release of the package index."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vllm_graft.errors import SourceError
from vllm_graft.install.index_configuration import variables_for_pip
from vllm_graft.install.pip import is_no_match, is_unreachable, plan_fetch, plan_listing
from vllm_graft.install.wheel_choice import (
    Choice,
    PublishedWheel,
    choose_wheel,
    equal_choices,
    parse_published,
)
from vllm_graft.run.archive import digest_wheel
from vllm_graft.run.cache import Cache
from vllm_graft.run.package_tool import (
    find_pip,
    pip_configuration,
    pip_fingerprint,
    uv_configuration,
)
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
    files = pip_configuration(environment)
    variables = variables_for_pip(
        environment.variables, pip_files=files, uv_files=uv_configuration(environment)
    )
    index = _Index(
        source=source,
        environment=replace(environment, variables=variables),
        cache=cache,
        configuration=pip_fingerprint(variables, files),
    )
    if (known := index.known(options)) is not None:
        return known
    with cache.lock(_key(source, options)):
        if (known := index.known(options)) is not None:
            return known
        return index.open(options)


def _key(source: PyPISource, options: SourceOptions) -> str:
    python = options.python
    shown = f"{python[0]}.{python[1]}" if python else "any"
    return f"{source} platform={options.platform or 'any'} python={shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    source: PyPISource
    environment: Environment
    cache: Cache
    configuration: str
    """Digest of what decides where pip looks."""

    def known(self, options: SourceOptions, *, anywhere: bool = False) -> Install | None:
        """Give what the cache has; ``anywhere``: even if it came from elsewhere than pip looks now."""
        pointer = self.cache.lookup("releases", _key(self.source, options))
        if pointer is None:
            return None
        if not anywhere and pointer.get("configuration") != self.configuration:
            return None
        try:
            wheel = Digest.parse(pointer.get("wheel", ""))
        except ValueError:
            return None
        install = self._from_cache(wheel, pointer.get("file", ""))
        if install is not None:
            self._tell_choice(pointer.get("told", ""))
        return install

    def open(self, options: SourceOptions) -> Install:
        """Ask the index, fetch, read, keep; where that fails, take any copy that fits."""
        has_copy = self.cache.lookup("releases", _key(self.source, options)) is not None
        try:
            return self._fetch(options, patient=not has_copy)
        except SourceError as error:
            copy = self.known(options, anywhere=True)
            if copy is None:
                raise
            self.cache.console.tell(f"{error.what}; the copy in the cache is used")
            return copy

    def _fetch(self, options: SourceOptions, *, patient: bool) -> Install:
        pip = find_pip(self.environment)
        if pip is None:
            raise SourceError(
                "neither pip nor uv is there to fetch with",
                remedy="Install pip for the Python that runs vllm-graft, or give wheel:FILE.whl.",
                code="E314",
            )
        with workspace() as folder:
            published = self._published(pip, folder, patient=patient)
            choice = choose_wheel(published, self.source, options)
            self._tell_choice(choice.told)
            self.cache.console.tell(f"{self.source}: fetching {choice.wheel.file}")
            wheel_path = self._download(pip, choice, folder)
            wheel = digest_wheel(wheel_path)
            install = self._from_cache(wheel, choice.wheel.file)
            if install is None:
                install = read_wheel(wheel_path, source=str(self.source))
                keep(self.cache, wheel, install)
        for answered, same in equal_choices(published, self.source, choice):
            self.cache.remember("releases", _key(self.source, answered), self._pointer(same, wheel))
        return replace(install, location=choice.wheel.file)

    def _published(
        self, pip: tuple[str, ...], folder: str, *, patient: bool
    ) -> tuple[PublishedWheel, ...]:
        variables = self.environment.variables
        asked = plan_listing(pip, self.source, variables, folder=folder, patient=patient)
        answer = run_command(asked, variables=variables)
        told = (answer.stdout + answer.stderr).decode("utf-8", "replace")
        published = parse_published(told, self.source.name)
        if not published and is_unreachable(told):
            raise SourceError(
                f"the package index cannot be reached to fetch {self.source}",
                remedy="The cache has no copy. Connect, or see `pip config list` for index, proxy and"
                " certificate; without a network, give wheel:FILE.whl or path:DIR.",
                code="E313",
            )
        if not published and not is_no_match(told):
            raise SourceError(
                f"pip could not be asked what {self.source.name} publishes"
                f" (exit status {answer.status}):\n{answer.last_lines()}",
                remedy=f"See what this says: {' '.join(asked.argv)}",
                code="E315",
            )
        return published

    def _download(self, pip: tuple[str, ...], choice: Choice, folder: str) -> str:
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
            "configuration": self.configuration,
        }

    def _tell_choice(self, told: str) -> None:
        if told:
            self.cache.console.tell(f"{self.source}: reading the wheel for {told}")
