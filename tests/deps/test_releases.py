# The table of published releases: how it says in which releases something is, and what it does not say.
from hypothesis import given
from hypothesis import strategies as st

from vllm_graft.deps.between import place_between
from vllm_graft.deps.releases import parse_interval, render_interval, render_versions
from vllm_graft.workflows.judge_pins import published_releases

NAMES = tuple("abcdefgh")


@given(held=st.lists(st.booleans(), min_size=len(NAMES), max_size=len(NAMES)))
def test_what_is_written_of_releases_is_read_again(held: list[bool]) -> None:
    wanted = frozenset(name for name, holds in zip(NAMES, held, strict=True) if holds)
    assert parse_interval(render_interval(held, NAMES), NAMES) == wanted


def test_releases_are_told_as_ranges() -> None:
    assert render_versions(("b", "c", "e", "g", "h"), NAMES) == "b to c, e and g to h"
    assert render_versions((), NAMES) == "none"


def test_the_releases_that_pins_allow_are_found_in_order() -> None:
    every = published_releases()
    found = every.allowed(("<5,>=4.56.0",))
    assert [each.version for each in found][::8] == ["4.56.0", "4.57.6"]
    late = every.allowed((">=4.56.0,!=5.0.*,!=5.1.*,!=5.2.*,!=5.3.*,!=5.4.*,!=5.5.0",))
    versions = [each.version for each in late]
    assert versions[versions.index("4.57.6") + 1] == "5.5.1"


def test_autoconfig_knows_qwen3_5_since_5_2_0() -> None:
    every = published_releases().every()
    known = [each.version for each in every if each.knows_model_type("qwen3_5_moe")]
    assert known[0] == "5.2.0"
    assert known[-1] == every[-1].version


def test_a_tokenizer_that_transformers_5_writes_is_unknown_to_4() -> None:
    every = published_releases()
    old, new = every.release("4.57.6"), every.release("5.0.0")
    assert old is not None
    assert new is not None
    assert not old.knows_class("TokenizersBackend")
    assert new.knows_class("TokenizersBackend")
    assert old.knows_class("Qwen2TokenizerFast")
    assert new.knows_class("Qwen2TokenizerFast")


def test_of_a_name_that_no_vllm_imports_the_table_says_nothing() -> None:
    (release, *_) = published_releases().every()
    assert release.binds("transformers.utils", "zebra") is None


def test_a_candidate_is_what_its_neighbours_agree_on() -> None:
    candidate = place_between("5.0.0rc3", published_releases())
    assert candidate is not None
    assert (candidate.before.version, candidate.after.version) == ("4.57.6", "5.0.0")
    assert candidate.binds("transformers", "PretrainedConfig") is True
    assert candidate.knows_class("TokenizersBackend") is None
    assert candidate.has_config_member("validate_layer_type") is False


def test_beyond_the_table_nothing_is_told() -> None:
    assert place_between("99.0", published_releases()) is None
    assert place_between("1.0", published_releases()) is None
    assert place_between("local build", published_releases()) is None
