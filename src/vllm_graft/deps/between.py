# A candidate or development version (5.0.0rc3, as some images have it) is in no table, and the text of an image's
# transformers is not streamed out for a few names. Where the published releases on both sides of it agree, it is taken to
# agree with them; where they do not, nobody told.
"""A transformers between two published releases."""

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from vllm_graft.deps.releases import PublishedReleases
from vllm_graft.deps.transformers_facts import TransformersFacts
from vllm_graft.install.transformers_names import TransformersNames


@dataclass(frozen=True, kw_only=True)
class BetweenReleases:
    """Answers what its two neighbours agree on."""

    version: str
    before: TransformersFacts
    after: TransformersFacts
    requires: tuple[str, ...] = ()
    names: TransformersNames | None = None
    """What its own auto classes find, where those files are at hand."""

    @property
    def told_by(self) -> str:
        """Say who told."""
        return (
            f"what transformers {self.before.version} and {self.after.version} agree on"
            f" ({self.version} lies between them)"
        )

    def binds(self, module: str, name: str) -> bool | None:
        """Tell what both say of ``from module import name``."""
        return _agreed(self.before.binds(module, name), self.after.binds(module, name))

    def knows_model_type(self, model_type: str) -> bool | None:
        """Tell whether ``AutoConfig`` has a class for a model type."""
        if self.names is not None:
            return model_type in self.names.configs
        return _agreed(
            self.before.knows_model_type(model_type), self.after.knows_model_type(model_type)
        )

    def knows_class(self, name: str) -> bool | None:
        """Tell whether a tokenizer or processor class is found."""
        if self.names is not None:
            return self.names.knows_class(name)
        return _agreed(self.before.knows_class(name), self.after.knows_class(name))

    def has_config_member(self, name: str) -> bool | None:
        """Tell what both say of a member of the parent of all config classes."""
        return _agreed(self.before.has_config_member(name), self.after.has_config_member(name))

    def wants_set(self, argument: str) -> bool:
        """Tell whether either joins a config keyword with a set."""
        return bool(self.before.wants_set(argument) or self.after.wants_set(argument))

    def allows_layer_type(self, name: str) -> bool | None:
        """Tell what both say of an entry of ``layer_types``."""
        return _agreed(self.before.allows_layer_type(name), self.after.allows_layer_type(name))

    def signature(self, module: str, name: str) -> str | None:
        """Give the parameters of a function, if both have the same."""
        before, after = self.before.signature(module, name), self.after.signature(module, name)
        return before if before == after else None

    def model_type_of(self, architecture: str) -> str:
        """Give the model type of transformers' own model class, if both have the same."""
        before = self.before.model_type_of(architecture)
        return before if before == self.after.model_type_of(architecture) else ""


def place_between(
    version: str, published: PublishedReleases, *, names: TransformersNames | None = None
) -> BetweenReleases | None:
    """Find the neighbours of a version; None outside of the table."""
    try:
        wanted = Version(version)
    except InvalidVersion:
        return None
    before = [each for each in published.every() if Version(each.version) < wanted]
    after = [each for each in published.every() if Version(each.version) > wanted]
    if not before or not after:
        return None
    return BetweenReleases(version=version, before=before[-1], after=after[0], names=names)


def _agreed(before: bool | None, after: bool | None) -> bool | None:  # noqa: FBT001 (answers, not switches)
    return before if before == after else None
