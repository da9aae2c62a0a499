# The memory plan against the real allocator: every type of model that is said to be compared is compared, page by page.
from collections.abc import Mapping
from typing import Any

import environments
import page_cases
import pytest

from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.cluster.memory.layers import COMPARED, CacheWishes, cache_layers
from vllm_graft.cluster.memory.pages import PageWishes, lay_out, page_of
from vllm_graft.cluster.memory.weights import stages_of
from vllm_graft.values.probe import NotKnown

VERSION = "0.30.0"
MEMORY = 1 << 30
BLOCK = 32
"""The CPU's kernel takes multiples of it (v1/attention/backends/cpu_attn.py)."""
LATENT_BLOCK = 16
"""The CPU's kernel of MLA takes nothing else (v1/attention/backends/mla/cpu_mla.py)."""
KINDS = {
    "FullAttentionSpec": "full",
    "SlidingWindowSpec": "sliding",
    "MLAAttentionSpec": "mla",
    "MambaSpec": "state",
}
STORY = ("qwen3_5_moe",)


def asked(names: tuple[str, ...], ranks: int) -> list[dict[str, Any]]:
    cases = [
        {
            "name": name,
            "config": page_cases.CASES[name],
            "engine": {"block_size": BLOCK},
            "memory": MEMORY,
        }
        for name in names
    ]
    question = {"ranks": ranks, "cases": cases}
    told = environments.ask_inside(environments.tree(VERSION), "inside_pages.py", question)
    return told["cases"]


def same_as_vllm(told: Mapping[str, Any], ranks: int) -> None:
    assert "error" not in told, told["error"]
    configuration = Configuration(page_cases.CASES[told["name"]])
    # On a CPU vLLM keeps states in float32 whatever is said (platforms/cpu.py).
    wished = CacheWishes(tensor_parallel=ranks, state_type=told["state_type"])
    layers = cache_layers(configuration, wished)
    assert not isinstance(layers, NotKnown), layers
    is_latent = any(each.kind == "mla" for each in layers)
    block = LATENT_BLOCK if is_latent else BLOCK
    wishes = PageWishes(
        block_size=block, step=block, in_flight=told["in_flight"], state_mode=told["mode"]
    )
    ours = sorted((each.kind, page_of(each, layers, wishes)) for each in layers)
    theirs = sorted((KINDS[kind], page) for kind, _, page in told["pages"].values())
    assert ours == theirs

    assert configuration.length == told["length"]
    pages = lay_out(layers, stages_of(configuration.layers, 1), told["length"], wishes)
    assert not isinstance(pages, NotKnown)
    assert MEMORY // pages[0].block_bytes == told["blocks"]
    assert pages[0].tokens(MEMORY) == told["tokens"]


def test_pages_of_the_storys_kind_of_model_are_vllms_to_the_byte() -> None:
    (told,) = asked(STORY, 1)
    same_as_vllm(told, 1)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [1, 2])
def test_pages_of_every_type_that_is_called_compared_are_vllms_to_the_byte(ranks: int) -> None:
    names = tuple(page_cases.CASES)
    assert set(names) == COMPARED
    for told in asked(names, ranks):
        same_as_vllm(told, ranks)
