# What the transformers of an environment can resolve by name, read from the text of its `models/auto` package.
# Nothing is imported: transformers takes seconds to import, and the install may be for another machine.
"""Names that an installed transformers knows."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

AUTO_FILES = (
    "configuration_auto.py",
    "auto_mappings.py",
    "tokenization_auto.py",
    "processing_auto.py",
    "image_processing_auto.py",
    "video_processing_auto.py",
    "feature_extraction_auto.py",
)
"""Files of ``transformers/models/auto`` that hold the maps.

Source: transformers 4.57.6 and 5.17.0; ``auto_mappings.py`` holds the config map from 5.x on.
"""

_CONFIG = re.compile(r"""\(\s*["']([\w.-]+)["']\s*,\s*["'](\w+Config)["']\s*\)""")
_WORD = re.compile(r"[A-Za-z_]\w+")
_GENERIC_TOKENIZERS = frozenset({"PreTrainedTokenizer", "PreTrainedTokenizerFast"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersNames:
    """What ``AutoConfig``, ``AutoTokenizer`` and ``AutoProcessor`` find."""

    version: str
    configs: Mapping[str, str]
    """Model type → config class."""
    words: frozenset[str]
    """Every class that the maps of tokenizers and processors mention."""

    def knows_class(self, name: str) -> bool:
        """Tell whether a tokenizer or processor class of this name is found, slow or fast."""
        stem = name.removesuffix("Fast")
        return name in _GENERIC_TOKENIZERS or not self.words.isdisjoint({name, stem, f"{stem}Fast"})


def parse_transformers(texts: Mapping[str, str], version: str) -> TransformersNames | None:
    """Read the auto files that exist: name → text; None where there is no map of configs."""
    maps = "\n".join(texts.get(name, "") for name in ("configuration_auto.py", "auto_mappings.py"))
    configs = dict(_CONFIG.findall(maps))
    if not configs:
        return None
    others = "\n".join(text for name, text in texts.items() if name != "configuration_auto.py")
    return TransformersNames(
        version=version, configs=configs, words=frozenset(_WORD.findall(others))
    )
