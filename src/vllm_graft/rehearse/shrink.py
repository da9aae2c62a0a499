# A model's configuration made small by its structure: few layers of each kind that it has, few heads, few experts,
# small towers, the same relations between its numbers. A pure function of the mapping in config.json; no table of
# models. Rules go by the names of keys, and by what numbers are to each other.
"""Shrink a configuration: the same architecture, a few layers of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from vllm_graft.rehearse import layers, widths
from vllm_graft.rehearse.sections import (
    MTP,
    Config,
    Json,
    Path,
    Section,
    count,
    is_list,
    is_mapping,
    sections,
)
from vllm_graft.rehearse.words import ONE_TOKEN, VOCABULARY, Words, vocabulary

EXPERTS = re.compile(
    r"^(num|n)_((routed|local|moe)_)?experts$|^moe_num_(primary_)?experts$|^zero_expert_num$"
)
"""Source: ``num_experts`` Qwen, ``n_routed_experts`` DeepSeek, ``num_local_experts`` Mixtral, ``moe_num_experts``
Step and ERNIE (a list there: one for text, one for pictures)."""

CHOSEN = re.compile(
    r"^(num_)?experts_per_tok(en)?$|^moe_(top_?k|k)$|^num_experts_per_token$|^(num_)?top_?k_experts$|^experts_top_?k$"
)
GROUPS = re.compile(r"^(n|num_expert)_group$")
CHOSEN_GROUPS = re.compile(r"^topk_group$|^moe_topk_group$")
SHARED_EXPERTS = re.compile(r"^(n|num)_shared_experts?$|^moe_num_shared_experts$")
FEW_EXPERTS, FEW_CHOSEN, FEW_GROUPS, FEW_SHARED = 8, 2, 2, 2

QUANTISATION = re.compile(r"^(quantization|compression)_config$")
WINDOW = re.compile(
    r"^(sliding_window(_size)?|local_attention|attention_window_size|attn_window_size)$"
)
POSITIONS = ("max_position_embeddings", "max_sequence_length", "seq_length", "max_seq_len", "n_ctx")
STRETCHED = re.compile(r"factor|original_max_position|long|yarn")
FEATURE_LAYER = re.compile(r"(feature|select)_layers?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How small, and what is left as it is."""

    quantisation: bool = True
    """Keep ``quantization_config``."""
    vocabulary: int | None = None
    """Reduce the vocabulary to this, or to as much as the token ids in the configuration need; None keeps it."""
    renumber: bool = False
    """Give token ids that are too large for the reduced vocabulary new numbers, in their order. Only where no
    tokenizer goes with the configuration: the defaults of a class."""
    positions: int | None = None
    """Reduce the positions that the model was made for, where they are not stretched; None keeps them."""
    window: int | None = 128
    """Reduce sliding windows, so that a short prompt reaches beyond them; None keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One value that is another in the small configuration."""

    path: str
    """Keys from the outermost on, joined with dots."""
    before: Json
    after: Json
    """None where the key was taken out."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunken:
    """A small configuration, and what makes it differ from the one that was given."""

    config: dict[str, Json]
    changes: tuple[Change, ...]


def shrink(config: Config, limits: Limits | None = None) -> Shrunken:
    """Make a configuration small.

    What is not understood stays as it is: a model that is larger than need be still is the same model. No number
    grows, no key is added, and shrinking twice is shrinking once.
    """
    limits = limits or Limits()
    small = _once(config, limits)
    while True:
        # Widths are ranked among one another, and small ones may rank otherwise: until nothing moves any more.
        again = _once(small.config, limits)
        if again.config == small.config:
            return small
        small = Shrunken(config=again.config, changes=_joined(small.changes, again.changes))


def _joined(first: Sequence[Change], then: Sequence[Change]) -> tuple[Change, ...]:
    """Give one change for each key: from what it was at first to what it became at last."""
    known = {change.path: change for change in first}
    for change in then:
        before = known.get(change.path)
        known[change.path] = change if before is None else replace(change, before=before.before)
    return tuple(known.values())


def _once(config: Config, limits: Limits) -> Shrunken:
    found = tuple(sections(config))
    made = widths.measures(found)
    words = vocabulary(config, limits.vocabulary, renumber=limits.renumber)
    steps: dict[Path, _Step] = {}
    depths: dict[Path, dict[int, int]] = {}
    for section in found:
        own = {n: layers.layers_to_keep(section, n) for n in section.depths.values()}
        depths[section.path] = own or (depths[section.path[:-1]] if section.path else {})
    towers = [n for s in found if s.tower and s.depths for n in depths[s.path].values()]
    for section in found:
        steps[section.path] = _Step(
            section=section,
            limits=limits,
            depths=depths[section.path],
            tower_depth=min(towers, default=None),
            words=words,
            widths=widths.Widths(
                values=section.values,
                own=_lent(made, section.path),
                others=widths.language_first(made, section.path),
            ),
        )
    changes: list[Change] = []
    return Shrunken(config=_rebuild(config, (), steps, changes), changes=tuple(changes))


def _lent(made: Mapping[Path, widths.Measure], path: Path) -> widths.Measure:
    """Give a section's measures; one that is no stack of its own has its owner's width."""
    own = made[path]
    if own.hidden is not None or not path:
        return own
    outer = _lent(made, path[:-1])
    if own.heads is not None:
        return replace(own, hidden=outer.hidden, hidden_after=outer.hidden_after)
    return replace(outer, path=path)


def _rebuild(
    values: Config, path: Path, steps: Mapping[Path, "_Step"], changes: list[Change]
) -> dict[str, Json]:
    step = steps.get(path)
    made: dict[str, Json] = {}
    for key, value in values.items():
        where = ".".join((*path, key))
        if step is not None and QUANTISATION.search(key) and not step.limits.quantisation:
            changes.append(
                Change(path=where, before=value, after=None, why="quantisation was to be left out")
            )
            continue
        after, why = value, ""
        if step is not None:
            after, why = step.value(key, value)
        if after != value:
            changes.append(Change(path=where, before=value, after=after, why=why))
        inner = (*path, key)
        made[key] = _rebuild(after, inner, steps, changes) if is_mapping(after) else after
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What happens to the values of one section."""

    section: Section
    limits: Limits
    depths: Mapping[int, int]
    """Layers before → after, of this section or of the one that it belongs to."""
    tower_depth: int | None
    words: Words | None
    widths: widths.Widths

    def value(self, key: str, value: Json) -> tuple[Json, str]:
        """Give what a value becomes, and why."""
        cut, why = self._by_layer(key, value)
        for rule in (self._number_of, self._heads_and_widths, self._rest):
            after = rule(key, cut)
            if after is not None:
                return after
        return cut, why

    def _by_layer(self, key: str, value: Json) -> tuple[Json, str]:
        """Cut lists that have an entry for each layer, and lists of layer numbers."""
        mtp = next((v for k, v in self.section.values.items() if MTP.search(k) and count(v)), 0)
        for before, after in self.depths.items():
            if is_mapping(value):
                if layers.by_number(value, before):
                    return {k: v for k, v in value.items() if int(k) < after}, "layers that stay"
                continue
            kept = layers.cut(key, value, before, after, mtp)
            if kept is not None:
                return kept, "one entry for each layer that stays"
            numbers = layers.number_lists(self.section.values, before).get(key)
            if numbers is not None and before != after:
                kept = self._numbers(numbers, before, after)
                written = ",".join(map(str, kept)) if isinstance(value, str) else kept
                return written, "numbers of layers that stay"
        return value, ""

    def _numbers(self, numbers: Sequence[int], before: int, after: int) -> list[int]:
        if self.section.tower:
            # As many as there were: what is read off these layers is joined further on.
            return list(range(1, after))[: len(numbers)]
        start = layers.first_number(self.section.values, before)
        return [one for one in numbers if one < after + start]

    def _number_of(self, key: str, value: Json) -> tuple[Json, str] | None:
        """Count layers, and what is counted in layers."""
        if MTP.search(key) and count(value):
            return min(value, 1), "one multi-token head"
        if key in self.section.depths and count(value):
            return self.depths[value], "layers of each kind"
        if FEATURE_LAYER.search(key) and self.tower_depth:
            return _within(value, self.tower_depth), "a layer that the tower still has"
        for before, after in self.depths.items():
            if layers.LAST.search(key) and count(value):
                return _last(value, before, after), "a layer that stays"
            if layers.SHARED.search(key) and count(value):
                return min(value, after // 2), "half of the layers that stay"
        return None

    def _heads_and_widths(self, key: str, value: Json) -> tuple[Json, str] | None:
        own = self.widths.own
        state = widths.rules_of_state(self.section.values, own)
        if key in state:
            return state[key], "few heads of recurrent layers"
        if widths.is_heads(key, value):
            return self.widths.heads(value), "few heads"
        if widths.is_key_value_heads(key, value):
            return self.widths.key_value_heads(value), "few heads"
        if widths.is_inner(key, value):
            return self.widths.inner(value), "a small inner width"
        if key == "o_groups" and count(value) and own.heads_after:  # DeepSeek V4: groups of heads
            return gcd(value, own.heads_after), "groups of the heads that there are"
        if widths.LATENT.search(key) and count(value):
            return min(value, 2 * widths.UNIT), "a small rank"
        if widths.is_width(key, value):
            small = self._width(key, value)
            return None if small is None else (small, "the width of its stack")
        return None

    def _width(self, key: str, value: int) -> int | None:
        if key == self.section.hidden:
            return self.widths.own.hidden_after
        return self.widths.width(key, value)

    def _rest(self, key: str, value: Json) -> tuple[Json, str] | None:
        grouped = any(
            GROUPS.search(k) and count(v) and v > 1 for k, v in self.section.values.items()
        )
        for pattern, few, why in (
            (EXPERTS, FEW_EXPERTS, "few experts"),
            (CHOSEN, FEW_CHOSEN, "few experts a token"),
            (GROUPS, FEW_GROUPS, "few groups of experts"),
            (CHOSEN_GROUPS, 1 if grouped else FEW_GROUPS, "few groups of experts"),
            (SHARED_EXPERTS, FEW_SHARED, "few shared experts"),
            (WINDOW, self.limits.window, "a window that a short prompt fills"),
        ):
            if few is not None and pattern.search(key):
                return widths.each(value, lambda v, few=few: min(v, few)), why
        if VOCABULARY.search(key) and self.words is not None and count(value):
            return min(value, self.words.size), "no token id in the configuration is larger"
        if self.words and self.words.renumbered and ONE_TOKEN.search(key):
            new = self.words.renumbered
            return widths.each(value, lambda v: new.get(v, v)), "a token of the reduced vocabulary"
        if (
            key in POSITIONS
            and count(value)
            and self.limits.positions
            and not _stretched(self.section.values)
        ):
            return min(value, self.limits.positions), "few positions"
        return None


def _within(value: Json, depth: int) -> Json:
    """Give a layer of a tower that is ``depth`` deep; its states are one more, the first being its input."""
    if is_list(value):
        return [_within(one, depth) for one in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return max(-depth - 1, min(value, depth))


def _last(value: int, before: int, after: int) -> int:
    """Give a threshold among the layers that stay: beyond all of them if it was, else before the last."""
    if value < after:
        return value
    return after if value >= before else after - 1


def _stretched(values: Config) -> bool:
    """Tell whether positions are stretched: then their number is bound to other numbers."""
    rotary = [values.get(key) for key in ("rope_scaling", "rope_parameters")]
    return any(is_mapping(one) and any(STRETCHED.search(str(k)) for k in one) for one in rotary)
