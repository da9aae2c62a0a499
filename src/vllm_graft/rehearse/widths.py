# How wide a small model is. Head sizes stay as they are: kernels take few of them, and rotary sections, latent
# ranks and softmax scales are made for them. There are fewer heads, and what is made of heads follows; a quantity
# that two sections share stays one.
"""The small widths of a configuration, each from what the large ones were to each other."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, gcd

from vllm_graft.rehearse.sections import (
    HEAD_WIDTH,
    HEADS,
    HIDDEN,
    KEY_VALUE_HEADS,
    Config,
    Json,
    Path,
    Section,
    count,
    first_count,
    is_list,
    some_counts,
)

FEW_HEADS = 4
UNIT = 128
"""Inner widths are multiples of it. Source: block-wise FP8 checkpoints scale blocks of 128 by 128."""
FREE_WIDTHS = (2 * UNIT, 3 * UNIT)
"""The width of a stack whose heads do not add up to it: the first that they do not add up to either."""

INNER = re.compile(
    r"intermediate_size|ffn_(hidden_size|dim|size)|^d_ff$|^n_inner$|^(mlp|ff|inner|expert|share_expert)_dim$"
    r"|^ffn_dim$|^linear_units$|mlp_hidden_size$|^decoder_ffn|^encoder_ffn"
)
WIDTH = re.compile(r"hidden|embed|dim|width|size|channels|d_model|output|input|units")
NOT_WIDTH = re.compile(
    r"vocab|patch|image|kernel|window|chunk|crop|batch|grid|pool|head|rope|max_|num_|codebook|mel|position|conv|merge"
    r"|stride|group|block|state|layer_input|rank|sampl|feature|tile|video|frame|shuffle|scale|downsample"
)
OUTWARD = re.compile(r"^out|output|proj|text|llm|lm_|target|cross|language")
"""Widths that a tower or a projector has from the stack that it feeds."""

LATENT = re.compile(r"^q_lora_rank$|^o_lora_rank$")
"""Ranks that kernels do not fix; that of keys and values (``kv_lora_rank``) is a head size to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The heads and the width of one stack, before and after."""

    path: Path
    tower: bool
    heads: int | None
    heads_after: int | None
    hidden: int | None
    hidden_after: int | None


def measures(found: Iterable[Section]) -> dict[Path, Measure]:
    """Give the measures of every section."""
    made: dict[Path, Measure] = {}
    for section in found:
        outer = made.get(section.path[:-1]) if section.path else None
        made[section.path] = _measure(section, outer)
    return made


def _measure(section: Section, outer: Measure | None) -> Measure:
    values = section.values
    heads = first_count(values, HEADS)
    after = None if heads is None else min(heads, FEW_HEADS)
    if heads and after and outer and outer.heads and outer.heads_after and not section.depths:
        # Settings of some of the outer stack's layers: Step 3.5 has more heads in its sliding ones.
        after = min(heads, max(1, outer.heads_after * heads // outer.heads))
    hidden = values[section.hidden] if section.hidden else None
    hidden_after = None if hidden is None else min(hidden, _hidden(values, hidden, heads, after))
    return Measure(
        path=section.path,
        tower=section.tower,
        heads=heads,
        heads_after=after,
        hidden=hidden,
        hidden_after=hidden_after,
    )


def _hidden(values: Config, hidden: int, heads: int | None, heads_after: int | None) -> int:
    if heads is None or heads_after is None:
        return FREE_WIDTHS[0]
    width = first_count(values, HEAD_WIDTH)
    latent = "qk_nope_head_dim" in values
    if (width is None and hidden % heads == 0 and not latent) or width == hidden // heads:
        return heads_after * (hidden // heads)
    width = width or 1
    expand = values.get("expand")
    if (
        count(expand) and expand * hidden == heads * width
    ):  # Mamba 2: heads make up the expanded width
        return heads_after * width // expand
    return next(free for free in FREE_WIDTHS if free != heads_after * width)


Rule = Callable[[str, int], int]


def each(value: Json, rule: Callable[[int], int]) -> Json:
    """Apply a rule to a count, or to each of a list of counts; other values stay."""
    if count(value):
        return rule(value)
    if is_list(value):
        return [rule(one) if count(one) else one for one in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """The rules for the widths of one section."""

    values: Config
    own: Measure
    others: tuple[Measure, ...]
    """Of the other sections, those for language first."""

    def heads(self, value: Json) -> Json:
        """Fewer attention heads."""
        after = self.own.heads_after or FEW_HEADS
        return each(value, lambda v: min(v, after))

    def key_value_heads(self, value: Json) -> Json:
        """Fewer heads of keys and values: one, as many as there are heads, or some, as it was."""
        heads, after = self.own.heads, self.own.heads_after
        if heads is None or after is None or heads == after:
            return value

        def fewer(v: int) -> int:
            if v >= heads:
                return after
            return next(few for few in (2, 1) if few <= v and after % few == 0)

        return each(value, fewer)

    def inner(self, value: Json) -> Json:
        """Inner widths: the smallest becomes one unit, the next two; what is the stack's width stays that."""
        known: set[int] = set()
        for key, other in self.values.items():
            if INNER.search(key):
                each(other, lambda v: known.add(v) or v)
        ranks = {v: at + 1 for at, v in enumerate(sorted(known))}
        hidden, after = self.own.hidden, self.own.hidden_after
        expand = self.values.get("expand")

        def smaller(v: int) -> int:
            if hidden and after and v == hidden:
                return after
            if hidden and after and count(expand) and v == expand * hidden:
                return expand * after
            return min(v, UNIT * ranks.get(v, 1))

        return each(value, smaller)

    def width(self, key: str, value: int) -> int | None:
        """Give the small value of a width that is the width of a stack; None: it is none."""
        order = (*self.others, self.own) if OUTWARD.search(key) else (self.own, *self.others)
        for measure in order:
            if measure.hidden and measure.hidden_after and measure.hidden == value:
                return measure.hidden_after
        own = self.own
        if not own.hidden or not own.hidden_after or value % own.hidden:
            return None
        # Several of a tower's patches are joined before they go further (their width is then a multiple of its
        # own); Zamba 2's attention is twice as wide as the model.
        joined = OUTWARD.search(key) or key == "attention_hidden_size"
        return own.hidden_after * (value // own.hidden) if joined else None


def rules_of_state(values: Config, own: Measure) -> dict[str, Json]:
    """Give the small sizes of recurrent layers: Mamba, linear attention.

    Source: the relations are asserted in the layers themselves: heads make up the expanded width in Mamba 2
    (Bamba, Granite 4), groups divide heads, value heads are a multiple of key heads (Qwen3-Next).
    """
    return _linear(values) | _mamba(values, own)


def _linear(values: Config) -> dict[str, Json]:
    keys, heads = values.get("linear_num_key_heads"), values.get("linear_num_value_heads")
    if not count(keys) or not count(heads):
        return {}
    few = min(keys, 2)
    return {"linear_num_key_heads": few, "linear_num_value_heads": few * max(1, heads // keys)}


def _mamba(values: Config, own: Measure) -> dict[str, Json]:
    found: dict[str, Json] = {}
    hidden, after = own.hidden, own.hidden_after
    rank = "time_step_rank" if "time_step_rank" in values else "mamba_dt_rank"
    if hidden and after and values.get(rank) == ceil(hidden / 16):
        found[rank] = ceil(after / 16)
    key = next((k for k in ("mamba_n_heads", "mamba_num_heads") if count(values.get(k))), None)
    few = own.heads_after
    if key is not None:
        heads: int = values[key]
        few = _mamba_heads(values, heads, own)
        found[key] = few
        width = first_count(values, ("mamba_d_head", "mamba_head_dim"))
        if width and values.get("mamba_d_ssm") == heads * width:
            found["mamba_d_ssm"] = few * width
    for groups in ("mamba_n_groups", "mamba_ngroups", "n_groups"):
        value = values.get(groups)
        if count(value) and few:
            found[groups] = gcd(min(value, 2), few)
    return found


def _mamba_heads(values: Config, heads: int, own: Measure) -> int:
    expand = first_count(values, ("mamba_expand", "expand"))
    if expand and own.hidden and own.hidden_after:
        width = first_count(values, ("mamba_d_head", "mamba_head_dim"))
        if (width or expand * own.hidden // heads) * heads == expand * own.hidden:
            return max(1, expand * own.hidden_after * heads // (expand * own.hidden))
    return min(heads, FEW_HEADS)


def is_heads(key: str, value: Json) -> bool:
    """Tell whether a key counts attention heads."""
    return key in HEADS and some_counts(value)


def is_key_value_heads(key: str, value: Json) -> bool:
    """Tell whether a key counts heads of keys and values."""
    return key in KEY_VALUE_HEADS and some_counts(value)


def is_inner(key: str, value: Json) -> bool:
    """Tell whether a key is the inner width of an MLP or an expert."""
    return bool(INNER.search(key)) and some_counts(value)


def is_width(key: str, value: Json) -> bool:
    """Tell whether a key may be the width of a stack."""
    if not count(value):
        return False
    return key in HIDDEN or (bool(WIDTH.search(key)) and not NOT_WIDTH.search(key))


def language_first(made: Mapping[Path, Measure], own: Path) -> tuple[Measure, ...]:
    """Give the other sections' measures, those that are no towers first."""
    rest = [measure for path, measure in made.items() if path != own and measure.hidden]
    return tuple(sorted(rest, key=lambda measure: measure.tower))
