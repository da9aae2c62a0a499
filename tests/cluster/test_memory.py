# Figures computed by hand beside each test; the configurations are published ones.
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import published_models as models
import sparks
from vllm_graft.cluster.memory.budget import node_budget
from vllm_graft.cluster.memory.configuration import Configuration
from vllm_graft.cluster.memory.layers import CacheWishes, cache_layers
from vllm_graft.cluster.memory.pages import PageWishes, lay_out, longest
from vllm_graft.cluster.memory.plan import plan_memory
from vllm_graft.cluster.memory.refusal import memory_findings, refuse_too_large
from vllm_graft.cluster.memory.way import PlannedModel
from vllm_graft.cluster.memory.weights import gathered, share_weights, stages_of
from vllm_graft.cluster.memory.words import cache_wishes, read_number, read_words
from vllm_graft.errors import NodeError
from vllm_graft.fleet.probes import gpus, memory
from vllm_graft.report.memory import memory_details, share_of, told_memory
from vllm_graft.values.memory_plan import CacheLayer, NodeBudget, Tensor, Topology
from vllm_graft.values.probe import NotKnown

GIB = 1 << 30
SPARK = NodeBudget(
    node="spark-a",
    gpus=1,
    is_unified=True,
    total=127_600_748 * 1024,
    available=118_566_368 * 1024,
)
"""A clean DGX Spark: MemTotal and MemAvailable as published (121.7 and 113.1 GiB)."""


@cache
def story_tensors() -> tuple[Tensor, ...]:
    return gathered(models.qwen35_122b_fp8())


def story(*args: str) -> PlannedModel:
    return PlannedModel(
        configuration=Configuration(models.QWEN35_122B),
        tensors=story_tensors(),
        args=args,
    )


def layers(config: Mapping[str, Any], ranks: int = 1, **wishes: Any) -> tuple[CacheLayer, ...]:
    found = cache_layers(Configuration(config), CacheWishes(tensor_parallel=ranks, **wishes))
    assert not isinstance(found, NotKnown), found
    return found


def counted(found: tuple[CacheLayer, ...]) -> dict[tuple[str, int], int]:
    kinds: dict[tuple[str, int], int] = {}
    for each in found:
        key = (each.kind, each.token_bytes or each.state_bytes)
        kinds[key] = kinds.get(key, 0) + 1
    return kinds


# --- what a layer keeps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_a_full_layer_keeps_a_key_and_a_value_for_each_head_and_each_rank_has_one_head_at_least(
    ranks: int, heads: int
) -> None:
    assert counted(layers(models.LLAMA_70B, ranks)) == {("full", heads * 128 * 2 * 2): 80}


def test_sliding_layers_are_every_other_one_where_the_file_says_so() -> None:
    found = layers(models.GPT_OSS_120B)
    assert counted(found) == {("sliding", 8 * 64 * 2 * 2): 18, ("full", 8 * 64 * 2 * 2): 18}
    assert {each.window for each in found if each.kind == "sliding"} == {128}


def test_gemma_3_slides_in_five_of_six_layers_though_its_file_does_not_say_so() -> None:
    found = layers(models.GEMMA_3_27B)
    assert [each.kind for each in found[:6]] == ["sliding"] * 5 + ["full"]
    assert counted(found) == {("sliding", 16 * 128 * 4): 52, ("full", 16 * 128 * 4): 10}


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_a_latent_layer_keeps_the_same_on_every_rank(ranks: int) -> None:
    assert counted(layers(models.DEEPSEEK_V3, ranks)) == {("mla", (512 + 64) * 2): 61}


def test_a_gated_delta_net_keeps_a_state_that_is_shared_out_over_ranks() -> None:
    seen = (2 * 16 * 128 + 64 * 128) // 2 * 3 * 2
    kept = 64 // 2 * 128 * 128 * 4
    assert counted(layers(models.QWEN35_122B, 2)) == {
        ("state", seen + kept): 36,
        ("full", 1 * 256 * 2 * 2): 12,
    }


def test_qwen3_next_remembers_in_the_type_of_the_model() -> None:
    seen, kept = (2 * 16 * 128 + 32 * 128) * 3 * 2, 32 * 128 * 128 * 2
    assert ("state", seen + kept) in counted(layers(models.QWEN3_NEXT_80B))


def test_a_state_of_mamba_2_is_kept_in_float32_and_layers_of_an_mlp_keep_nothing() -> None:
    seen = (256 * 64 + 2 * 8 * 256) // 8 * 3 * 2
    kept = 256 // 8 * 64 * 256 * 4
    found = counted(layers(models.NEMOTRON_H_56B, 8))
    assert found == {("state", seen + kept): 54, ("full", 1 * 128 * 2 * 2): 10}


def test_speculation_makes_states_longer_and_adds_the_drafts_own_layer() -> None:
    found = counted(layers(models.QWEN35_122B, 2, speculative_tokens=2, is_drafting=True))
    seen = (2 * 16 * 128 + 64 * 128) // 2 * (3 + 2) * 2
    assert found == {("state", seen + 32 * 128 * 128 * 4): 36, ("full", 1024): 13}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"compress_ratios": [1, 4]}, "compress_ratios"),
        ({"num_kv_shared_layers": 10}, "num_kv_shared_layers"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"layer_types": ["full_attention", "conv"] * 40, "sliding_window": 128}, "'conv'"),
        ({"head_dim": None, "hidden_size": None}, "how many heads"),
        ({"num_hidden_layers": None}, "how many layers"),
    ],
)
def test_what_a_file_has_beyond_the_known_rules_makes_its_cache_not_known(
    more: dict[str, Any], why: str
) -> None:
    found = cache_layers(Configuration({**models.LLAMA_70B, **more}), CacheWishes())
    assert isinstance(found, NotKnown)
    assert why in found.not_known


def test_states_that_cannot_be_shared_out_are_told() -> None:
    found = cache_layers(Configuration(models.QWEN35_122B), CacheWishes(tensor_parallel=3))
    assert isinstance(found, NotKnown)
    assert "cannot be shared out over 3 ranks" in found.not_known


# --- pages and blocks -----------------------------------------------------------------------------------------


def test_the_page_of_attention_grows_until_a_state_fits_into_it() -> None:
    """2,134,016 bytes of state in multiples of 16 tokens of 1,024 bytes: 131 of them, 2,096 tokens."""
    (pages,) = laid_out(layers(models.QWEN35_122B, 2), 262144)
    assert (pages.block_size, pages.page_size) == (2096, 2096 * 1024)
    assert pages.block_bytes == 12 * 2096 * 1024
    assert (
        pages.blocks_per_request == 126 + 3 * 2
    )  # 262,144 / 2,096 rounded up; three groups of states


def test_layers_that_are_all_alike_are_one_group() -> None:
    (pages,) = laid_out(layers(models.LLAMA_70B, 8), 131072)
    assert pages.block_bytes == 80 * 16 * 512
    assert pages.blocks_per_request == 131072 // 16
    assert pages.tokens(10 * GIB) == 10 * GIB // pages.block_bytes * 16


def test_sliding_layers_need_blocks_for_their_window_and_what_is_under_way() -> None:
    (pages,) = laid_out(layers(models.GPT_OSS_120B), 131072)
    assert pages.block_bytes == 18 * 16 * 2048
    assert pages.blocks_per_request == 131072 // 16 + -(-(127 + 16384) // 16) + 1


def test_a_pipeline_stage_has_blocks_of_its_own_layers_alone() -> None:
    found = laid_out(layers(models.LLAMA_70B), 131072, pipeline=2)
    assert [each.block_bytes for each in found] == [40 * 16 * 4096] * 2


@pytest.mark.parametrize(
    ("layers", "pipeline", "counts"), [(61, 2, [31, 30]), (62, 4, [15, 16, 16, 15])]
)
def test_layers_that_do_not_share_out_evenly_go_to_the_middle(
    layers: int, pipeline: int, counts: list[int]
) -> None:
    assert [len(each) for each in stages_of(layers, pipeline)] == counts


def test_the_longest_request_is_the_longest_that_fits() -> None:
    found, stages, wishes = layers(models.LLAMA_70B, 8), stages_of(80, 1), PageWishes(block_size=16)
    room = GIB
    length = longest(found, stages, [room], 131072, wishes)
    (fits,) = laid_out(found, length)
    (more,) = laid_out(found, length + 1)
    assert fits.least <= room < more.least


def laid_out(found: tuple[CacheLayer, ...], length: int, pipeline: int = 1) -> Any:
    number = max(each.layer for each in found) + 1
    pages = lay_out(found, stages_of(number, pipeline), length, PageWishes(block_size=16))
    assert not isinstance(pages, NotKnown)
    return pages


# --- weights --------------------------------------------------------------------------------------------------


def shares(model: PlannedModel, **topology: Any) -> list[int]:
    found = share_weights(model.tensors, model.configuration, Topology(**topology))
    return [each.most for each in found.stages]


def test_the_tensors_of_the_story_are_the_published_ones() -> None:
    tensors = list(models.qwen35_122b_fp8())
    assert sum(each.size for each in tensors) == models.QWEN35_122B_FP8_BYTES
    assert len(tensors) - 1 + models.QWEN35_122B_VISION[0] == models.QWEN35_122B_FP8_TENSORS
    assert story().size == models.QWEN35_122B_FP8_BYTES


def test_layers_for_multi_token_prediction_are_loaded_only_where_they_are_asked_for() -> None:
    draft = 2_505_897_472 + 37_767_168
    (alone,) = shares(story())
    assert alone == models.QWEN35_122B_FP8_BYTES - draft
    both = share_weights(story().tensors, story().configuration, Topology(), is_drafting=True)
    assert both.stages[0].most == models.QWEN35_122B_FP8_BYTES


@pytest.mark.parametrize(
    ("name", "shape", "part"),
    [
        ("model.embed_tokens.weight", (1024, 64), 1 / 4),
        ("model.layers.0.self_attn.q_proj.weight", (64, 64), 1 / 4),
        ("model.layers.0.self_attn.k_proj.weight", (64, 64), 1 / 2),  # two heads over four ranks
        ("model.layers.0.self_attn.qkv_proj.weight", (1280, 64), (8 / 4 + 2) / 12),
        ("model.layers.0.mlp.down_proj.weight", (64, 64), 1 / 4),
        ("model.layers.0.mlp.down_proj.bias", (64,), 1),
        ("model.layers.0.mlp.up_proj.bias", (64,), 1 / 4),
        ("model.layers.0.input_layernorm.weight", (64,), 1),
        ("model.layers.0.mlp.gate.weight", (8, 64), 1),
        ("model.layers.0.mlp.experts.3.up_proj.weight", (64, 64), 1 / 4),
        ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", (64, 64), 1),
        ("model.layers.0.linear_attn.conv1d.weight", (64, 1, 4), 1 / 4),
    ],
)
def test_a_tensor_is_shared_out_by_what_it_is(
    name: str, shape: tuple[int, ...], part: float
) -> None:
    config = {"num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 2}
    one = models.tensor(name, shape)
    found = share_weights([one], Configuration(config), Topology(tensor=4))
    assert found.stages[0].most == pytest.approx(one.size * part, abs=1)
    assert found.stages[0].least == pytest.approx(one.size * part, abs=1)


def test_experts_stay_whole_where_they_are_shared_out_by_number() -> None:
    config = Configuration({"num_hidden_layers": 1, "num_experts": 6})
    tensors = [models.tensor(f"model.layers.0.mlp.experts.{n}.w1.weight", (8, 8)) for n in range(6)]
    found = share_weights(tensors, config, Topology(tensor=4, is_expert_parallel=True))
    assert found.stages[0].most == 2 * 8 * 8 * 2  # six over four ranks: two on the fullest


def test_a_tensor_that_is_not_known_is_counted_whole_and_shared_out() -> None:
    one = models.tensor("model.layers.0.mystery.weight", (64, 64))
    found = share_weights([one], Configuration({"num_hidden_layers": 1}), Topology(tensor=4))
    assert (found.stages[0].most, found.stages[0].least) == (one.size, one.size // 4)
    assert found.unknown == (one.name,)


def test_matrices_in_float32_are_held_in_two_bytes_and_scales_as_they_are() -> None:
    config = Configuration({"num_hidden_layers": 1})
    large = models.tensor("model.layers.0.mlp.up_proj.weight", (64, 64), "F32")
    scale = models.tensor("model.layers.0.mlp.up_proj.weight_scale", (64, 1), "F32")
    found = share_weights([large, scale], config, Topology())
    assert found.stages[0].most == large.size // 2 + scale.size


def test_a_tied_head_is_held_once_and_on_both_ends_of_a_pipeline() -> None:
    config = Configuration({"num_hidden_layers": 2, "tie_word_embeddings": True})
    tensors = [
        models.tensor("model.embed_tokens.weight", (1024, 8)),
        models.tensor("lm_head.weight", (1024, 8)),
    ]
    for pipeline in (1, 2):
        found = share_weights(tensors, config, Topology(pipeline=pipeline))
        assert [each.most for each in found.stages] == [1024 * 8 * 2] * pipeline


@pytest.mark.parametrize("is_expert_parallel", [False, True])
def test_more_ranks_never_need_more_each(*, is_expert_parallel: bool) -> None:
    found = [
        shares(story(), tensor=ranks, is_expert_parallel=is_expert_parallel)[0]
        for ranks in (1, 2, 4, 8, 16)
    ]
    assert found == sorted(found, reverse=True)
    for config in (models.QWEN35_122B, models.LLAMA_70B, models.NEMOTRON_H_56B, models.DEEPSEEK_V3):
        kept = [
            sum(e.token_bytes + e.state_bytes for e in layers(config, ranks))
            for ranks in (1, 2, 4, 8)
        ]
        assert kept == sorted(kept, reverse=True)


def test_the_ranks_together_hold_everything() -> None:
    total = shares(story())[0]
    for ranks in (2, 4, 8):
        assert shares(story(), tensor=ranks)[0] * ranks >= total
        assert sum(shares(story(), pipeline=ranks)) == total


# --- what a node can give -------------------------------------------------------------------------------------


def test_a_spark_gives_what_the_kernel_calls_available() -> None:
    facts = sparks.facts()
    found = node_budget("spark-a", facts.gpus, facts.memory, facts.gpu_processes)
    assert found == replace(SPARK, cached=found.cached if isinstance(found, NodeBudget) else 0)


def test_files_that_were_read_are_no_loss() -> None:
    told = sparks.known(memory.MEMORY, sparks.said("meminfo-cached.txt"))
    found = node_budget("spark-a", sparks.facts().gpus, told, ())
    assert isinstance(found, NodeBudget)
    assert found.available == told.available > told.free
    assert found.cached == told.available - told.free


def test_a_gpu_with_memory_of_its_own_gives_what_its_driver_calls_free() -> None:
    line = "{}, GPU-{}, NVIDIA A100, 00000000:0{}:00.0, 580.1, 8.0, 81920, {}"
    text = "\n".join(
        line.format(number, number, number, free) for number, free in enumerate((80000, 60000))
    )
    found = node_budget("node", sparks.known(gpus.GPUS, text), NotKnown(not_known="untold"), ())
    assert isinstance(found, NodeBudget)
    assert (found.gpus, found.is_unified) == (2, False)
    assert (found.available, found.total) == (60000 << 20, 81920 << 20)
    model = PlannedModel(configuration=Configuration(models.LLAMA_70B), tensors=())
    one = plan_memory(model, Topology(), [found])  # which takes the first, and that one is free
    assert one.verdict == "fits"
    assert plan_memory(model, Topology(tensor=2), [found]).verdict == "does not fit"


def test_a_node_without_a_driver_is_skipped_and_a_driver_that_is_silent_is_not_known() -> None:
    absent = sparks.answered(gpus.GPUS, "", status=127)
    broken = sparks.answered(gpus.GPUS, "", status=9, complaint="driver/library version mismatch")
    untold = NotKnown(not_known="untold")
    assert isinstance(absent, NotKnown)
    assert isinstance(broken, NotKnown)
    assert node_budget("node", absent, untold, untold) == NodeBudget(node="node", gpus=0)
    assert node_budget("node", broken, untold, untold) == broken


# --- the plan -------------------------------------------------------------------------------------------------


def test_the_model_of_the_story_does_not_fit_one_spark_and_fits_two() -> None:
    alone = plan_memory(story(), Topology(), [SPARK])
    assert alone.verdict == "does not fit"
    assert "116.1 GiB of the weights, and vLLM may take 109.5 GiB" in alone.nodes[0].cause
    assert alone.smallest == "TP=2 over 2 GPUs with 121.7 GiB each"

    two = plan_memory(story(), Topology(tensor=2), [SPARK, replace(SPARK, node="spark-b")])
    assert two.verdict == "fits"
    assert not isinstance(two.cache, NotKnown)
    share = two.nodes[0]
    room = share.asked - share.weights.most - share.reserve
    blocks = room // (12 * 2096 * 1024)
    assert share.cache == room
    assert two.cache.tokens == int(blocks / 132 * 262144) == 3_727_608
    assert two.flags == ()


def test_with_less_of_each_spark_there_is_less_cache() -> None:
    nodes = [SPARK, replace(SPARK, node="spark-b")]
    found = plan_memory(story("--gpu-memory-utilization", "0.8"), Topology(tensor=2), nodes)
    assert not isinstance(found.cache, NotKnown)
    assert found.cache.tokens == 2_720_736


def test_the_node_that_has_least_decides_and_is_named() -> None:
    busy = replace(SPARK, node="spark-b", available=25_516_700 * 1024, users=("VLLM::EngineCore",))
    found = plan_memory(story(), Topology(tensor=2), [SPARK, busy])
    assert found.verdict == "does not fit"
    assert [each.verdict for each in found.nodes] == ["fits", "does not fit"]
    assert "24.3 GiB can be had" in found.nodes[1].cause
    assert found.flags == ()  # no share would do


def test_a_share_that_is_not_free_can_be_lowered_while_the_model_still_fits() -> None:
    nodes = [replace(SPARK, available=100 * GIB), replace(SPARK, node="spark-b")]
    found = plan_memory(story(), Topology(tensor=2), nodes)
    assert found.verdict == "does not fit"
    assert found.flags == ("--gpu-memory-utilization", "0.82")
    mended = plan_memory(story(*found.flags), Topology(tensor=2), nodes)
    assert mended.verdict == "fits"


def test_a_request_that_is_too_long_for_the_cache_can_be_made_shorter() -> None:
    tensors = (
        Tensor(name="model.layers.0.mlp.up_proj.weight", dtype="BF16", shape=(8, 8), size=36 * GIB),
    )
    model = PlannedModel(configuration=Configuration(models.LLAMA_70B), tensors=tensors)
    node = NodeBudget(node="node", gpus=1, total=80 * GIB, available=79 * GIB)
    found = plan_memory(model, Topology(), [node])
    assert found.verdict == "does not fit"
    assert "one request of 131,072 tokens needs" in found.nodes[0].cause
    name, length = found.flags
    assert name == "--max-model-len"
    mended = plan_memory(replace(model, args=found.flags), Topology(), [node])
    assert mended.verdict == "fits"
    longer = replace(model, args=(name, str(int(length) + 16)))
    assert plan_memory(longer, Topology(), [node]).verdict != "fits"


def test_what_fits_only_without_the_reserve_is_tight_and_not_refused() -> None:
    nodes = [SPARK, replace(SPARK, node="spark-b")]
    found = plan_memory(story("--gpu-memory-utilization", "0.52"), Topology(tensor=2), nodes)
    assert found.verdict == "tight"
    assert "a reserve of 6.0 GiB" in found.nodes[0].cause


def test_what_suffices_for_an_older_share_and_not_for_a_newer_is_tight_where_nobody_says_it() -> (
    None
):
    nodes = [replace(SPARK, available=int(SPARK.total * 0.91)), replace(SPARK, node="spark-b")]
    assert plan_memory(story(), Topology(tensor=2), nodes).verdict == "tight"
    said = story("--gpu-memory-utilization", "0.9")
    assert plan_memory(said, Topology(tensor=2), nodes).verdict == "fits"


def test_nodes_without_gpus_are_skipped_and_named() -> None:
    found = plan_memory(story(), Topology(tensor=2), [NodeBudget(node="plain", gpus=0)] * 2)
    assert (found.verdict, found.nodes, found.skipped) == ("not known", (), ("plain", "plain"))


def test_a_cache_that_is_not_known_refuses_nothing_but_weights_that_are_too_large() -> None:
    config = Configuration({**models.QWEN35_122B["text_config"], "compress_ratios": [4]})
    model = replace(story(), configuration=config)
    two = plan_memory(model, Topology(tensor=2), [SPARK, SPARK])
    assert two.verdict == "not known"
    assert "compress_ratios" in two.nodes[0].cause
    assert plan_memory(model, Topology(), [SPARK]).verdict == "does not fit"


def test_parts_for_images_may_be_left_out_and_then_refuse_nothing() -> None:
    both = plan_memory(story(), Topology(), [SPARK]).nodes[0].weights
    text = plan_memory(story("--language-model-only"), Topology(), [SPARK]).nodes[0].weights
    assert both.least - text.least == models.QWEN35_122B_VISION[1]
    assert both.most == text.most


def test_words_that_change_what_is_needed_refuse_nothing() -> None:
    model = story("--quantization", "experimental")
    found = plan_memory(model, Topology(), [SPARK])
    assert found.verdict == "tight"
    assert any("--quantization" in each for each in found.notes)


def test_every_published_model_is_planned_or_says_why_not() -> None:
    for config in (
        models.GPT_OSS_120B,
        models.DEEPSEEK_V3,
        models.GEMMA_3_27B,
        models.NEMOTRON_H_56B,
        models.LLAMA_70B,
        models.QWEN3_NEXT_80B,
    ):
        model = PlannedModel(configuration=Configuration(config), tensors=())
        found = plan_memory(model, Topology(tensor=2), [SPARK, SPARK])
        if config is models.GEMMA_3_27B:  # which leaves its length to the library
            assert isinstance(found.cache, NotKnown)
            assert found.verdict == "not known"
        else:
            assert not isinstance(found.cache, NotKnown), found.cache
            assert found.cache.tokens > 0


def test_the_refusal_names_every_node_that_is_short_and_what_would_help() -> None:
    busy = replace(SPARK, node="spark-b", available=25_516_700 * 1024, users=("VLLM::EngineCore",))
    plan = plan_memory(story(), Topology(tensor=2), [SPARK, busy])
    with pytest.raises(NodeError) as caught:
        refuse_too_large(plan, "Qwen3.5-122B")
    assert caught.value.code == "E583"
    assert "spark-b: vLLM asks for 109.5 GiB" in caught.value.what
    assert "(VLLM::EngineCore)" in caught.value.what
    assert "spark-a" not in caught.value.what
    assert caught.value.remedy.startswith("stop what else has memory on spark-b")
    assert list(memory_findings(plan)) == []  # the share that is not free is N207's

    alone = plan_memory(story(), Topology(), [SPARK])
    (finding,) = memory_findings(alone)
    assert (finding.code, finding.severity) == ("E583", "blocked")
    assert "TP=2 over 2 GPUs" in finding.remedy


def test_what_is_tight_is_told_and_refused_nothing() -> None:
    nodes = [SPARK, replace(SPARK, node="spark-b")]
    plan = plan_memory(story("--gpu-memory-utilization", "0.52"), Topology(tensor=2), nodes)
    refuse_too_large(plan, "Qwen3.5-122B")
    assert {(each.code, each.severity) for each in memory_findings(plan)} == {("N212", "review")}


def test_a_plan_reads_as_a_sentence() -> None:
    two = plan_memory(story(), Topology(tensor=2), [SPARK, NodeBudget(node="plain", gpus=0)])
    assert told_memory(two) == (
        "127 GB of weights, TP=2: fits; room for about 3,727,608 tokens of KV cache, requests of up to 262,144"
    )
    assert share_of(two, "spark-a") == (
        "fits: 109.5 GiB: 58.5 GiB weights, 6.0 GiB reserve, 45.0 GiB for the cache"
    )
    assert share_of(two, "plain") == "no GPU: not planned"
    assert any("36 state (2,134,016 bytes a request)" in each for each in memory_details(two))


# --- words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [("65536", 65536), ("64k", 64000), ("64K", 65536), ("1.5m", 1500000), ("auto", 0)],
)
def test_lengths_are_read_as_vllm_reads_them(text: str, number: int) -> None:
    assert read_number(text) == number


def test_where_vllm_chooses_the_length_none_is_too_long() -> None:
    tensors = (
        Tensor(name="model.layers.0.mlp.up_proj.weight", dtype="BF16", shape=(8, 8), size=36 * GIB),
    )
    model = PlannedModel(
        configuration=Configuration(models.LLAMA_70B),
        tensors=tensors,
        args=("--max-model-len", "auto"),
    )
    node = NodeBudget(node="node", gpus=1, total=80 * GIB, available=79 * GIB)
    assert plan_memory(model, Topology(), [node]).verdict == "fits"


@pytest.mark.parametrize(
    ("told", "width"),
    [
        ({}, 2),
        (
            {
                "quant_method": "modelopt",
                "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
            },
            1,
        ),
        ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}}, 1),
        ({"quant_method": "fp8"}, 2),
    ],
)
def test_the_type_of_the_cache_may_come_from_the_file(told: dict[str, Any], width: int) -> None:
    at = Configuration({**models.LLAMA_70B, "quantization_config": told})
    found = cache_wishes(at, (), 1, read_words(()))
    assert not isinstance(found, NotKnown)
    assert found.cache_bytes == width


def test_a_cache_of_bytes_is_half_as_large() -> None:
    nodes = [SPARK, replace(SPARK, node="spark-b")]
    half = plan_memory(story("--kv-cache-dtype", "fp8"), Topology(tensor=2), nodes)
    assert not isinstance(half.cache, NotKnown)
    assert "12 full (512 bytes a token)" in half.cache.kinds
