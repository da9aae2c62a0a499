# Runs inside an install (see inside.py): values that a model's code reads from its configuration and nothing here
# says. Some classes' defaults lack what every published file has, and for architectures whose configuration class
# comes with the checkpoint there is no class at all. The code is run until it asks for something that is not there;
# that is given a usual value, by its name, and the code is run again. What was made up is told in the answer: it
# makes a model that can be constructed, in this tree and in any other, not one that anybody published.
"""Supply what a configuration lacks, as the model's code asks for it."""

import contextlib
import dataclasses
import json
import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from vllm_graft.rehearse.sections import HEADS, HIDDEN, first_count

Path = tuple[str, ...]

PLAIN: Mapping[str, Any] = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 256,
    "max_position_embeddings": 4096,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 512,
}
"""A decoder as most are: where an architecture has no configuration class, the asking starts here."""

TOWER: Mapping[str, Any] = {
    "hidden_act": "gelu",
    "hidden_size": 256,
    "image_size": 224,
    "intermediate_size": 256,
    "layer_norm_eps": 1e-06,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 4,
    "num_channels": 3,
    "num_hidden_layers": 2,
    "patch_size": 14,
}

LANGUAGE: Mapping[str, Any] = {
    **PLAIN,
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "model_type": "llama",
}

USUAL: tuple[tuple[str, Any], ...] = (
    (r"^(text|llm|language|lm)_config$", dict(LANGUAGE)),
    (r"(vision|visual|vit|image)\w*_config$|^vision$", dict(TOWER)),
    (
        r"audio\w*_config$|speech\w*_config$",
        {"model_type": "whisper", "d_model": 256, "encoder_layers": 2},
    ),
    (r"_conf(ig)?$", {}),
    (r"^rope_(parameters|scaling)$", {"rope_type": "default", "rope_theta": 10000.0}),
    (r"^(auto_map|quantization_config)$", None),
    (r"layers?_ids$", [0]),
    (r"^q_lora_rank$", 256),
    (r"^kv_lora_rank$", 512),
    (r"^qk_rope_head_dim$", 64),
    (r"^(qk_nope_|v_)head_dim$", 128),
    (r"^(rotary_dim|rotary_emb_dim)$", 64),
    (r"^(n_group|topk_group|num_expert_group)$", 1),
    (r"^scor(ing|e)_func$|router_(score_func|activation)", "sigmoid"),
    (r"gate_func$", "silu"),
    (r"(query|key|qk|q|k)_norm$", True),
    (r"norm_type$", "layer_norm"),
    (r"(merge|temporal_patch|pool|downsample|stride|shuffle)\w*$", 2),
    (r"^in_(chans|channels)$", 3),
    (r"^pool_type$|^pooling$", "avg"),
    (r"^position_embedding_type$", "rope"),
    (r"^use_rope2d$", True),
    (r"^topk_method$", "noaux_tc"),
    (r"act(ivation)?(_fn|_func|_function)?$|^hidden_act", "silu"),
    (r"layer_types$", ["full_attention"]),
    (r"theta$|rope_base$", 10000.0),
    (r"eps(ilon)?$", 1e-06),
    (
        r"bias|^(use|is|has|enable|add|with|apply|no|need|norm|skip|do|add|share|tie)_|_enabled?$|^gated|^original_rope$|dropout",
        False,
    ),
    (r"experts?_per_tok|top_?k$|^moe_k$", 2),
    (r"shared_experts?$", 1),
    (r"experts?$|expert_num$", 8),
    (r"(num|n)_\w*dense\w*|first_k_dense", 1),
    (r"nextn|mtp", 1),
    (r"layers?$|depth$", 2),
    (r"(kv|key_value)_heads$|attention_groups$", 2),
    (r"heads?$", 4),
    (r"head_dim$|head_size$|kv_channels$", 64),
    (r"factor|scal|multiplier|alpha|coef|temperature|mult$|limit", 1.0),
    (r"interval|period|freq|step|every", 1),
    (r"max_position|seq_len|length$|max_\w*len", 4096),
    (r"window", 128),
    (r"token|_ids?$|_index$", 3),
    (r"kernel|conv", 4),
    (r"patch_size$", 14),
    (r"image_size$", 224),
    (r"^dim_model_base$", 256),
    (r"^downsample_ratio$", 0.5),
    (r"^(select_layer|vision_feature_layer)$", -1),
    (r"^ps_version$", "v2"),
    (r"^query_num$", 64),
    (r"groups?$", 1),
    (r"vocab", 512),
    (r"rank$|dim$|size$|hidden|width|embed|intermediate|ffn", 256),
    (r"", 2),
)
"""Pattern of a name → a usual value. The first that fits."""


@dataclass(frozen=True)
class Lack:
    """What the code asked for and did not get."""

    path: Path
    name: str

    @property
    def dotted(self) -> str:
        """Name it with the keys that it is under."""
        return ".".join((*self.path, self.name))


def lack(configuration: dict[str, Any], error: BaseException) -> Lack | None:
    """Tell what an error says that the configuration lacks; None: it is about something else."""
    from transformers import PretrainedConfig

    seen: BaseException | None = error
    while seen is not None:
        asked = getattr(seen, "obj", None)
        if isinstance(seen, AttributeError) and isinstance(asked, PretrainedConfig):
            return Lack(path_of(configuration, asked), seen.name)
        seen = seen.__cause__ or seen.__context__
    told = re.search(r"The text_config extracted .* does not have `(\w+)` attribute", str(error))
    if told:
        return Lack(language(configuration), told.group(1))
    if not isinstance(error, TypeError | AttributeError):
        return None
    return next(iter(nothing_there(configuration, error)), None)


def language(configuration: dict[str, Any]) -> Path:
    """Give where the configuration of the language model is."""
    parts = ("text_config", "llm_config", "language_config", "thinker_config")
    return next(((key,) for key in parts if isinstance(configuration.get(key), dict)), ())


def nothing_there(configuration: dict[str, Any], error: BaseException) -> Iterator[Lack]:
    """Give what is None on the line that failed and was read from a configuration."""
    from transformers import PretrainedConfig

    trace, frames = error.__traceback__, []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    for one in reversed(frames):
        for owner, name in re.findall(r"([A-Za-z_][\w.]*)\.(\w+)", expression_at(one)):
            found = value_of(owner, one.tb_frame.f_locals)
            if isinstance(found, PretrainedConfig) and getattr(found, name, 0) is None:
                yield Lack(path_of(configuration, found), name)


def expression_at(trace: TracebackType) -> str:
    """Give the text of what was being evaluated: a call's arguments may stand on lines of their own."""
    code, first = trace.tb_frame.f_code, trace.tb_lineno
    last = first
    if hasattr(code, "co_positions"):  # Python 3.11 and later
        for number, (begin, end, _, _) in enumerate(code.co_positions()):
            if number == trace.tb_lasti // 2 and begin and end:
                first, last = min(first, begin), end
    lines = range(first, last + 1)
    return "".join(linecache.getline(code.co_filename, line) for line in lines)


KINDS: tuple[tuple[str, Any], ...] = (
    (
        r"(object|argument) of type '(int|bool)' (has no len|is not)|'(int|bool)' object is not (iterable|subscriptable)",
        [0],
    ),
    (
        r"must be a mapping, not (int|bool)|'(int|bool)' object has no attribute '(get|items|keys)'",
        {},
    ),
)
"""What an error says of a value that is of the wrong kind, and one of the right kind."""


def wrong_kind(
    error: BaseException, configuration: dict[str, Any], supplied: Mapping[str, Any]
) -> tuple[str, Any] | None:
    """Tell which supplied value is of the wrong kind or lacks a key, and give a better one; None: none is."""
    trace, lines = error.__traceback__, []
    while trace is not None:
        lines.append(linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    last = {name: name.rpartition(".")[2] for name in supplied}
    named = [
        name
        for line in reversed(lines)
        for name in supplied
        if re.search(rf"\b{re.escape(last[name])}\b", line)
    ]
    for pattern, value in KINDS:
        if re.search(pattern, str(error)):
            for name in named:
                known = supplied[name]
                if isinstance(known, int):
                    section = section_of(configuration, tuple(name.split(".")[:-1]))
                    return name, [known] * layers_of(section) if value == [0] else dict(value)
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        key = error.args[0]
        for name in named:
            known = supplied[name]
            if isinstance(known, dict) and key not in known:
                return name, {**known, key: usual(key, known)}
    return None


def layers_of(section: Mapping[str, Any]) -> int:
    """Give how many layers a configuration has."""
    return first_count(section, ("num_hidden_layers", "num_layers", "n_layers", "depth")) or 2


def value_of(dotted: str, names: Mapping[str, Any]) -> Any:
    """Give what a dotted name is in a frame; None where it is nothing."""
    first, *rest = dotted.split(".")
    found = names.get(first)
    for part in rest:
        found = getattr(found, part, None)
    return found


def path_of(configuration: dict[str, Any], asked: Any) -> Path:
    """Give where in the mapping a configuration object is from: where most values are the same."""
    held = vars(asked)

    def alike(values: Mapping[str, Any]) -> int:
        same = sum(key in held and held[key] == value for key, value in values.items())
        return same + 3 * (values.get("model_type") == getattr(asked, "model_type", None))

    ranked = [((), configuration), *inner(configuration)]
    return max(ranked, key=lambda one: (alike(one[1]), -len(one[0])))[0]


def inner(values: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Give the configurations within one."""
    for key, value in values.items():
        if isinstance(value, Mapping) and key.endswith("config"):
            yield (*path, key), value
            yield from inner(value, (*path, key))


def of_dataclass(name: str, module: Any) -> dict[str, Any] | None:
    """Give the defaults that a model's own file has for a configuration within one.

    Source: Molmo 2 (``vit_config`` and ``VitConfig``, a dataclass).
    """
    wanted = name.replace("_", "").lower()
    for known, found in vars(module).items() if module else ():
        if known.lower() == wanted and dataclasses.is_dataclass(found):
            with contextlib.suppress(Exception):
                made: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(found())))
                return made
    return None


def places(configuration: dict[str, Any], found: Lack) -> Iterator[Lack]:
    """Give where a value may have to be: where it was read, then elsewhere, should that not help.

    Some models hand their part's configuration on under another one's name.
    """
    yield found
    for path in ((), *(path for path, _ in inner(configuration))):
        if path != found.path:
            yield Lack(path, found.name)


def section_of(configuration: dict[str, Any], path: Path) -> dict[str, Any]:
    """Give the mapping at a path."""
    section = configuration
    for key in path:
        section = section[key]
    return section


def value_for(configuration: dict[str, Any], found: Lack, module: Any = None) -> Any:
    """Give a value for what lacks: the model file's own default, or a usual one.

    Raises:
        LookupError: nothing is usual for such a name.
    """
    value = of_dataclass(found.name, module)
    return usual(found.name, section_of(configuration, found.path)) if value is None else value


def put(configuration: dict[str, Any], found: Lack, value: Any) -> None:
    """Put a value where one lacks."""
    section_of(configuration, found.path)[found.name] = value


def usual(name: str, section: Mapping[str, Any]) -> Any:
    """Give a usual value for a name, from what else the configuration says where that decides it."""
    heads, hidden = first_count(section, HEADS), first_count(section, HIDDEN)
    layers = layers_of(section)
    if name == "head_dim" and heads and hidden:
        return hidden // heads
    if name == "first_k_dense_replace" and section.get("mlp_layer_types"):
        return list(section["mlp_layer_types"]).count("dense")
    if name.endswith("layer_types"):
        return ["full_attention"] * layers
    if name == "sliding_windows":
        return [128] * layers
    if name == "block_dim" and hidden:  # LFM2: its old name for the width
        return hidden
    if name == "padded_vocab_size":
        return section.get("vocab_size", 512)
    for pattern, value in USUAL:
        if re.search(pattern, name):
            return dict(value) if isinstance(value, dict) else value
    message = f"nothing is usual for {name}"
    raise LookupError(message)
