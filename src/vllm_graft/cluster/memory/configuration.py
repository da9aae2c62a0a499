# config.json is read as it stands, not through the config class of a library: what a file does not say is not known here, and
# that it is not known goes all the way to the user.
"""What config.json says of the sizes of a model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

_NESTED = ("text_config", "llm_config", "language_config")
"""Source: transformers 5.x, configuration_utils.py (``get_text_config``); vLLM 0.30.0, transformers_utils/config.py."""

_LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    *("model_max_length", "max_target_positions", "max_seq_length", "max_sequence_length"),
)
"""Source: vLLM 0.30.0, transformers_utils/model_arch_config_convertor.py (``derive_max_model_len_and_key``)."""

_UNSCALED = (
    *("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"),
    *("default", "mrope"),
)
"""Source: vLLM 0.30.0, config/model.py (``_get_and_verify_max_len``)."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A config.json, and the part of it that describes the language model."""

    whole: Mapping[str, object]

    @property
    def text(self) -> Mapping[str, object]:
        """Give the part that has the language model's sizes."""
        at = self.whole
        thinker = at.get("thinker_config")
        if isinstance(thinker, Mapping):
            at = cast("Mapping[str, object]", thinker)
        for name in _NESTED:
            part = at.get(name)
            if isinstance(part, Mapping):
                return cast("Mapping[str, object]", part)
        return at

    @property
    def model_type(self) -> str:
        """Give the type of the language model, without the ``_text`` that a nested one has."""
        found = self.text.get("model_type") or self.whole.get("model_type")
        return found.removesuffix("_text") if isinstance(found, str) else ""

    def number(self, *names: str) -> int | None:
        """Give the first of these fields that is a whole number."""
        for name in names:
            found = self.text.get(name)
            if isinstance(found, int) and not isinstance(found, bool):
                return found
            if isinstance(found, float) and found.is_integer():
                return int(found)
        return None

    def word(self, name: str) -> str:
        """Give a field that is a text; empty where it is not."""
        found = self.text.get(name, self.whole.get(name))
        return found if isinstance(found, str) else ""

    def words(self, *names: str) -> tuple[str, ...]:
        """Give the first of these fields that is a list of texts."""
        for name in names:
            found = self.text.get(name)
            if isinstance(found, list):
                items = cast("list[object]", found)
                return tuple(each for each in items if isinstance(each, str))
        return ()

    def says(self, name: str) -> bool:
        """Tell whether a field is there and neither null, false, zero nor empty."""
        return bool(self.text.get(name, self.whole.get(name)))

    @property
    def layers(self) -> int:
        """Give how many layers it has; 0: it does not say."""
        return self.number("num_hidden_layers", "n_layer", "num_layers", "n_layers") or 0

    @property
    def heads(self) -> int:
        """Give how many heads attention has; 0: it does not say."""
        return self.number("num_attention_heads", "n_head", "n_heads") or 0

    @property
    def kv_heads(self) -> int:
        """Give how many heads keys and values have.

        Source: vLLM 0.30.0, transformers_utils/model_arch_config_convertor.py (``get_total_num_kv_heads``).
        """
        told = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
        if self.text.get("multi_query") is True:
            return 1
        return self.number(*told, "num_attention_groups") or self.heads

    @property
    def head_size(self) -> int:
        """Give the size of a head; 0: it does not say."""
        told = self.number("head_dim", "attention_head_dim", "hidden_size_per_head")
        hidden = self.number("hidden_size", "n_embd", "d_model") or 0
        return told or (hidden // self.heads if self.heads else 0)

    @property
    def experts(self) -> int:
        """Give how many experts a layer has; 0: it has none, or does not say."""
        names = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
        return self.number(*names) or 0

    @property
    def quantization(self) -> Mapping[str, object]:
        """Give how it is quantised; empty where it is not."""
        for part in (self.whole, self.text):
            found = part.get("quantization_config")
            if isinstance(found, Mapping):
                return cast("Mapping[str, object]", found)
        return {}

    @property
    def is_tied(self) -> bool:
        """Tell whether the head is the embedding."""
        found = self.text.get("tie_word_embeddings", self.whole.get("tie_word_embeddings"))
        return found is True

    @property
    def length(self) -> int:
        """Give how long a request may be if nobody says less; 0: it does not say. tokenizer_config.json may say less.

        Source: vLLM 0.30.0, config/model.py (``_get_and_verify_max_len``).
        """
        found = [each for name in _LENGTHS if (each := self.number(name))]
        if not found:
            return 0
        length = float(min(found))
        if "gemma3" not in self.model_type:
            for rope in self._ropes():
                kind = rope.get("rope_type", rope.get("type", "default"))
                factor = rope.get("factor")
                if kind == "longrope":
                    return self.number("original_max_position_embeddings") or int(length)
                if kind not in _UNSCALED and isinstance(factor, (int, float)):
                    return int(length * factor)
        return int(length)

    def _ropes(self) -> Iterator[Mapping[str, object]]:
        for name in ("rope_parameters", "rope_scaling"):
            found = self.text.get(name)
            if not isinstance(found, Mapping):
                continue
            told = cast("Mapping[str, object]", found)
            nested = [
                cast("Mapping[str, object]", each)
                for each in told.values()
                if isinstance(each, Mapping)
            ]
            yield from nested or (told,)
            return
