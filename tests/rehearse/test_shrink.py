"""A configuration made small: what stays as it was, and what stays true of it."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearse.configurations import (
    DEEPSEEK,
    GEMMA3N,
    GPT_OSS,
    KIMI,
    NEMOTRON,
    PUBLISHED,
    QWEN35,
    STEP,
    WHISPER,
)
from vllm_graft.rehearse.shrink import Limits, shrink

TINY = Limits(vocabulary=512, renumber=True, positions=4096, quantisation=False)
LIMITS = (Limits(), Limits(vocabulary=512, positions=4096), TINY)


def numbers(values: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from numbers(value, f"{path}.{key}")
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield path, values


def keys(values: Any, path: str = "") -> set[str]:
    if not isinstance(values, Mapping):
        return set()
    return {f"{path}.{k}" for k in values} | {
        one for k, v in values.items() for one in keys(v, f"{path}.{k}")
    }


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("limits", LIMITS)
def test_shrinking_twice_is_shrinking_once(name: str, limits: Limits) -> None:
    once = shrink(PUBLISHED[name], limits)
    again = shrink(once.config, limits)
    assert again.config == once.config
    assert again.changes == ()


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_number_grows_and_no_key_is_lost_or_added(name: str) -> None:
    before, after = PUBLISHED[name], shrink(PUBLISHED[name]).config
    assert keys(after) == keys(before)
    sizes = dict(numbers(before))
    assert {path for path, value in numbers(after) if value > sizes[path]} == set()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_change_is_told(name: str) -> None:
    small = shrink(PUBLISHED[name], TINY)
    told = {change.path: change.after for change in small.changes}
    before = dict(flat(PUBLISHED[name]))
    after = dict(flat(small.config))
    assert {p: after.get(p) for p in before if before[p] != after.get(p)} == told
    assert all(change.why for change in small.changes)


def flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        where = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and key != "quantization_config":
            yield from flat(value, where)
        else:
            yield where, value


def test_the_story_keeps_one_layer_of_each_kind() -> None:
    text = shrink(QWEN35).config["text_config"]
    assert text["layer_types"] == ["linear_attention"] * 3 + ["full_attention"]
    assert text["num_hidden_layers"] == text["full_attention_interval"] == 4
    assert text["mtp_num_hidden_layers"] == 1


def test_head_sizes_and_rotary_sections_stay() -> None:
    text = shrink(QWEN35).config["text_config"]
    kept = ("head_dim", "linear_key_head_dim", "linear_value_head_dim", "rope_parameters")
    assert {k: text[k] for k in kept} == {k: QWEN35["text_config"][k] for k in kept}
    assert text["linear_num_value_heads"] == 4 * text["linear_num_key_heads"]


def test_a_tower_is_as_wide_as_its_heads_and_speaks_to_the_text() -> None:
    small = shrink(QWEN35).config
    tower = small["vision_config"]
    assert tower["hidden_size"] == tower["num_heads"] * 1152 // 16
    assert tower["out_hidden_size"] == small["text_config"]["hidden_size"]


def test_as_many_layers_of_a_tower_are_read_as_before() -> None:
    tower = shrink(QWEN35).config["vision_config"]
    assert tower["deepstack_visual_indexes"] == [1, 2, 3]
    assert tower["depth"] == 4


def test_dense_layers_before_experts_stay_and_one_with_experts() -> None:
    small = shrink(DEEPSEEK).config
    assert small["num_hidden_layers"] == small["first_k_dense_replace"] + 1


def test_experts_are_chosen_from_groups_that_have_enough() -> None:
    small = shrink(DEEPSEEK).config
    of_a_group = small["n_routed_experts"] // small["n_group"]
    assert small["n_group"] == 2
    assert of_a_group * small["topk_group"] >= small["num_experts_per_tok"]


def test_quantisation_is_kept_or_left_out() -> None:
    assert shrink(DEEPSEEK).config["quantization_config"] == DEEPSEEK["quantization_config"]
    assert "quantization_config" not in shrink(DEEPSEEK, TINY).config


def test_stretched_positions_stay() -> None:
    assert shrink(DEEPSEEK, TINY).config["max_position_embeddings"] == 163840


def test_a_pattern_of_letters_is_cut_where_each_has_occurred() -> None:
    small = shrink(NEMOTRON).config
    assert small["hybrid_override_pattern"] == "MEMEMEM*"
    assert small["num_hidden_layers"] == 8


def test_heads_of_mamba_make_up_the_expanded_width() -> None:
    small = shrink(NEMOTRON).config
    assert small["mamba_num_heads"] * 64 == 2 * small["hidden_size"]
    assert small["mamba_num_heads"] % small["n_groups"] == 0
    assert small["n_group"] == 1


def test_heads_that_do_not_add_up_to_the_width_still_do_not() -> None:
    small = shrink(GPT_OSS).config
    assert small["num_attention_heads"] * small["head_dim"] != small["hidden_size"]
    assert small["intermediate_size"] == small["hidden_size"]


def test_layers_counted_from_one_are_cut_by_that_count() -> None:
    small = shrink(KIMI).config
    assert small["num_hidden_layers"] == 4
    assert small["linear_attn_config"]["kda_layers"] == [1, 2, 3]
    assert small["linear_attn_config"]["full_attn_layers"] == [4]


def test_entries_for_multi_token_heads_stay_behind_the_layers() -> None:
    small = shrink(STEP).config
    layers = small["num_hidden_layers"]
    assert small["layer_types"] == [*STEP["layer_types"][:layers], STEP["layer_types"][45]]
    assert small["moe_layers_enum"] == "3"
    assert small["num_nextn_predict_layers"] == 1


def test_layers_of_another_head_count_keep_another() -> None:
    small = shrink(STEP).config
    assert small["num_attention_heads"] == 4
    assert small["attention_other_setting"]["num_attention_heads"] == 6


def test_layers_that_share_have_layers_to_share_with() -> None:
    small = shrink(GEMMA3N).config
    own = small["num_hidden_layers"] - small["num_kv_shared_layers"]
    assert set(small["layer_types"][:own]) == {"sliding_attention", "full_attention"}
    assert small["num_kv_shared_layers"] > 0
    assert len(small["intermediate_size"]) == small["num_hidden_layers"]


def test_an_encoder_and_a_decoder_are_both_cut() -> None:
    small = shrink(WHISPER).config
    assert small["encoder_layers"] == small["decoder_layers"] == small["num_hidden_layers"] == 2
    assert small["d_model"] // small["encoder_attention_heads"] == 64


def test_no_token_id_is_beyond_the_vocabulary() -> None:
    assert shrink(GPT_OSS).config["vocab_size"] == 201088
    assert shrink(GPT_OSS, Limits(vocabulary=512)).config["vocab_size"] > 200002
    renumbered = shrink(GPT_OSS, TINY).config
    assert renumbered["eos_token_id"] < renumbered["vocab_size"] < 1024


def test_renumbered_tokens_stay_apart() -> None:
    ids = {"bos_token_id": 700, "eos_token_id": 90000, "image_token_id": 90001}
    small = shrink({"vocab_size": 100000, **ids}, TINY).config
    new = [small[key] for key in ids]
    assert len(set(new)) == 3
    assert max(new) < small["vocab_size"]


@st.composite
def decoders(draw: st.DrawFn) -> dict[str, Any]:
    head_dim = draw(st.sampled_from((32, 64, 80, 128, 256)))
    kv = draw(st.sampled_from((1, 2, 3, 4, 8)))
    heads = kv * draw(st.sampled_from((1, 2, 3, 5, 8)))
    layers = draw(st.integers(1, 96))
    config: dict[str, Any] = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": draw(st.sampled_from((64, 128, 1000, 11008))),
        "moe_intermediate_size": draw(st.sampled_from((64, 512, 1408))),
        "vocab_size": draw(st.integers(300, 200000)),
        "eos_token_id": draw(st.integers(0, 299)),
    }
    if draw(st.booleans()):
        config["head_dim"] = head_dim
        config["hidden_size"] = heads * draw(st.integers(1, 64)) * 8
    else:
        config["hidden_size"] = heads * head_dim
    kinds = draw(st.lists(st.sampled_from("abcd"), min_size=layers, max_size=layers))
    if draw(st.booleans()):
        config["layer_types"] = kinds
    if draw(st.booleans()):
        config["mlp_only_layers"] = [n for n, kind in enumerate(kinds) if kind == "a"]
    if draw(st.booleans()):
        config["first_k_dense_replace"] = draw(st.integers(0, 6))
    if draw(st.booleans()):
        config["full_attention_interval"] = draw(st.integers(1, 8))
    return config


@given(decoders(), st.sampled_from(LIMITS))
@settings(deadline=None, max_examples=200)
def test_what_holds_for_every_decoder(config: dict[str, Any], limits: Limits) -> None:
    small = shrink(config, limits).config
    assert shrink(small, limits).config == small
    assert set(small) == set(config)
    assert all(
        value <= dict(numbers(config))[path]
        for path, value in numbers(small)
        if "token" not in path
    )
    heads, kv = small["num_attention_heads"], small["num_key_value_heads"]
    assert heads % kv == 0
    assert (kv == heads) == (config["num_key_value_heads"] == config["num_attention_heads"])
    assert small["eos_token_id"] < small["vocab_size"]
    if "head_dim" in config:
        assert small["head_dim"] == config["head_dim"]
    else:
        assert (
            small["hidden_size"] // heads * config["num_attention_heads"] == config["hidden_size"]
        )
    if "layer_types" in config:
        assert len(small["layer_types"]) == small["num_hidden_layers"]
        assert set(small["layer_types"]) == set(config["layer_types"])
    if config.get("mlp_only_layers"):
        assert small["mlp_only_layers"]


def test_a_list_of_kinds_counts_where_nothing_else_does() -> None:
    kinds = ["mamba", "moe"] * 8 + ["attention"] + ["mamba", "moe"] * 8
    small = shrink({"hidden_size": 256, "layers_block_type": kinds, "vocab_size": 1000}).config
    assert small["layers_block_type"] == kinds[:17]
    again = shrink(small).config
    assert again == small
