# The vocabulary of a small model: as few words as the token ids in the configuration leave room for.
"""Reduce vocabularies, and renumber token ids where that is allowed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vllm_graft.rehearse.sections import Config, count, is_list, is_mapping, sections

VOCABULARY = re.compile(r"vocab_size")
TOKEN = re.compile(r"token|suppress|(^|_)(bos|eos|pad|sep|cls|unk|mask)(_|$)|_ids?$")
"""Keys whose numbers may be token ids. Too many do no harm: they only keep the vocabulary larger."""
ONE_TOKEN = re.compile(
    r"(token|bos|eos|pad|sep|cls|unk|mask|image|video|audio)\w*_(ids?|index|idx)$|suppress_tokens$"
)
"""Keys whose numbers are token ids."""
UNIT = 64
"""Vocabularies are multiples of it: vLLM pads them to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The size that vocabularies are reduced to, and the new numbers of the ids beyond it."""

    size: int
    renumbered: Mapping[int, int]


def vocabulary(config: Config, least: int | None, *, renumber: bool) -> Words | None:
    """Give the size that vocabularies are reduced to; None: they stay."""
    if least is None:
        return None
    sizes = [
        v
        for s in sections(config)
        for k, v in s.values.items()
        if VOCABULARY.search(k) and count(v)
    ]
    if not sizes:
        return None
    before = max(sizes)
    ids = set(_token_ids(config, ONE_TOKEN))
    bound = [one for one in _token_ids(config, TOKEN) if one < before]
    if renumber:
        size = min(before, -(-(least + len(ids)) // UNIT) * UNIT)
        beyond = sorted(one for one in ids if one >= size)
        taken = {one for one in ids if one < size}
        free = [one for one in range(size - 1, -1, -1) if one not in taken][: len(beyond)]
        return Words(size=size, renumbered=dict(zip(beyond, sorted(free), strict=True)))
    largest = max(bound, default=0)
    return Words(size=min(before, -(-max(largest + 1, least) // UNIT) * UNIT), renumbered={})


def _token_ids(values: Config, keys: re.Pattern[str]) -> Iterator[int]:
    for key, value in values.items():
        if is_mapping(value):
            yield from _token_ids(value, keys)
        elif keys.search(key):
            listed = value if is_list(value) else [value]
            yield from (one for one in listed if count(one))
