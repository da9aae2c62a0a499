# Which layers stay. They are the first ones, never a choice of them: then lists are cut and nothing is counted
# anew, and what the model's own code computes from a layer's number (every fourth, the first three) stays true.
"""How few of a stack's first layers hold every kind of layer that it has."""

import re
from collections.abc import Iterator, Sequence

from vllm_graft.rehearse.sections import Config, Json, Section, count, is_list, is_mapping

LEAST = 2
MANY = 8
"""Above so many layers, each value of each list suffices; not every combination that occurs."""

KINDS = 4
"""A list with more values than these holds a quantity for each layer, not what kind it is."""

PERIOD = re.compile(
    r"interval|period$|every|(layer|moe|expert)\w*_freq|sliding\w*_pattern|_pattern$"
    r"|(sparse|moe|layer)\w*_step$|layer_group_size|^global_attn"
)
"""Something happens each so many layers. Source: ``full_attention_interval`` Qwen3-Next, ``attn_layer_period``
Jamba, ``moe_layer_freq`` DeepSeek, ``sliding_window_pattern`` Gemma 3, ``decoder_sparse_step`` Qwen-MoE,
``interleave_moe_layer_step`` Llama 4, ``layer_group_size`` Bailing, ``global_attn_every_n_layers`` ModernBERT."""

FIRST = re.compile(
    r"^first_\w*dense|^(num|n)_(first_)?(dense|hash)_layers$|^moe_layer_start_index$"
)
"""The first so many layers are of another kind. Source: ``first_k_dense_replace`` DeepSeek, ``num_dense_layers``
AFMoE and LFM2, ``moe_layer_start_index`` ERNIE, ``num_hash_layers`` DeepSeek V4."""

LAST = re.compile(r"^max_window_layers$|^moe_layer_end_index$|_end_layer$")
"""Names a layer that may be beyond the ones that stay."""

SHARED = re.compile(r"^num_kv_shared_layers$")
"""The last so many layers use keys and values of earlier ones. Source: Gemma 3n."""

NUMBERS = re.compile(r"layers?(_\w+)?$|idxs?$|ind(ex|ice)e?s$|_enum$|blocks$")
"""A list of layer numbers, if all of them are."""

NOT_BY_LAYER = re.compile(
    r"token|factor|mrope|section|architectures|mean$|std$|kernel|stride|grid|pinpoint|(image|patch|crop|window)\w*size"
)
"""Lists that are not about layers, however long they are."""


def layers_to_keep(section: Section, depth: int) -> int:
    """Give how many of so many layers stay."""
    if section.tower:
        named = [len(value) for value in number_lists(section.values, depth).values() if value]
        return min(depth, max([LEAST, *(n + 1 for n in named)]))
    least = min(depth, max([LEAST, *_least(section.values, depth)]))
    kept = max(least, _shortest(_rows(section.values, depth), least))
    return min(depth, 2 * kept) if shared(section.values) else kept


def shared(values: Config) -> str | None:
    """Give the key that says how many last layers share what earlier ones hold."""
    return next((key for key in values if SHARED.search(key) and count(values[key])), None)


def _least(values: Config, depth: int) -> Iterator[int]:
    for key, value in values.items():
        if not count(value):
            continue
        if PERIOD.search(key) and value <= depth:
            yield value
        elif FIRST.search(key) and value < depth:
            yield value + 1


def _shortest(rows: Sequence[Sequence[Json]], least: int) -> int:
    """Give the length of the shortest beginning that has in it what the whole has."""
    needed = {
        combination: at for at, combination in reversed(list(enumerate(zip(*rows, strict=True))))
    }
    whole = max([*needed.values(), 0]) + 1
    if max(whole, least) <= MANY:
        return whole
    singles = [row.index(value) for row in rows for value in set(row)]
    return max([*singles, 0]) + 1


def _rows(values: Config, depth: int) -> list[list[str]]:
    """Give, for each thing that differs by layer, what it is in each layer."""
    rows: list[list[str]] = []
    for inner in _here(values):
        named = by_number(inner, depth)
        if named is not None:
            rows.append([str(named.get(str(at))) for at in range(depth)])
            continue
        rows += [
            [str(one) for one in by_layer]
            for key, value in inner.items()
            if (by_layer := per_layer(key, value, depth, mtp=0)) is not None
        ]
        for numbers in number_lists(inner, depth).values():
            start = first_number(inner, depth)
            rows.append([str(at + start in numbers) for at in range(depth)])
    return [row for row in rows if len(set(row)) <= KINDS]


def _here(values: Config) -> Iterator[Config]:
    """Give a mapping and those in it that have no depth of their own."""
    yield values
    for value in values.values():
        if is_mapping(value) and not Section(path=(), values=value).depths:
            yield value


def per_layer(key: str, value: Json, depth: int, mtp: int) -> Sequence[Json] | None:
    """Give a list, or a string of letters, that has one entry for each layer; None: it is no such.

    It may hold further entries for the layers of the multi-token head, which follow.
    Source: Step 3.5 (45 layers, 48 entries), Nemotron-H (``hybrid_override_pattern``).
    """
    if NOT_BY_LAYER.search(key) or depth < LEAST:
        return None
    if isinstance(value, str) and "pattern" not in key:
        return None
    listed: Sequence[Json] = value if is_list(value) or isinstance(value, str) else ()
    return listed[:depth] if depth <= len(listed) <= depth + mtp else None


def cut(key: str, value: Json, before: int, after: int, mtp: int) -> list[Json] | str | None:
    """Cut what has one entry for each layer; the first entry of the multi-token head's stays behind it."""
    if per_layer(key, value, before, mtp) is None:
        return None
    if isinstance(value, str):
        return value[:after] + value[before : before + 1]
    listed: list[Json] = value
    return listed[:after] + listed[before : before + 1]


def number_lists(values: Config, depth: int) -> dict[str, list[int]]:
    """Give the lists that hold numbers of layers."""
    found: dict[str, list[int]] = {}
    for key, value in values.items():
        numbers = as_numbers(key, value)
        if numbers and NUMBERS.search(key) and all(0 <= one <= depth for one in numbers):
            found[key] = numbers
    return {
        key: numbers for key, numbers in found.items() if per_layer(key, numbers, depth, 0) is None
    }


def by_number(values: Config, depth: int) -> Config | None:
    """Give a mapping whose keys are numbers of layers; None: it is no such.

    Source: Gemma 4, ``per_layer_config``.
    """
    numbers = [str(key) for key in values]
    named = bool(numbers) and all(one.isdigit() and int(one) < depth for one in numbers)
    return values if named else None


def as_numbers(key: str, value: Json) -> list[int] | None:
    """Read a list of whole numbers, which may be written as one string.

    Source: Step 3.5, ``moe_layers_enum`` ("3,4,5,…").
    """
    if isinstance(value, str) and key.endswith("_enum"):
        parts = value.split(",")
        return (
            [int(part) for part in parts] if all(part.strip().isdigit() for part in parts) else None
        )
    if is_list(value) and all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        return list(value)
    return None


def first_number(values: Config, depth: int) -> int:
    """Give the number that the lists of this mapping give to the first layer: 0 or 1.

    Source: Kimi Linear counts from one (``linear_attn_config``: ``kda_layers`` and ``full_attn_layers``).
    """
    lists = number_lists(values, depth).values()
    return int(any(depth in numbers for numbers in lists))
