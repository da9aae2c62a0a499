import io
import re
import tokenize

import pytest

from grafting import BESIDE, FAMILY, OPERATORS, files_of, graft, okapi
from held import ENGINE, MODELS, HeldFiles, small_vllm, with_okapi
from opening import Opener
from vllm_graft.errors import RequestError


def words_outside_comments(text: bytes) -> list[tuple[int, str]]:
    """Give names and strings with their lines, by the tokenizer; documentation strings left out."""
    found: list[tuple[int, str]] = []
    fresh = True
    for token in tokenize.tokenize(io.BytesIO(text).readline):
        if (token.type == tokenize.STRING and not fresh) or token.type == tokenize.NAME:
            found.append((token.start[0], token.string))
        if token.type not in {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT}:
            fresh = token.type in {tokenize.NEWLINE, tokenize.ENCODING}
    return found


@pytest.mark.network
def test_every_line_of_the_donor_that_names_the_family_has_a_decision(
    shared_opener: Opener,
) -> None:
    donor = files_of(shared_opener, "0.17.1")
    grafting = graft(
        files_of(shared_opener, "0.14.1"),
        donor,
        FAMILY,
        features=["mtp", "reasoning-parser=qwen3"],
        grafted=BESIDE,
        operators=OPERATORS,
    )
    family = re.compile(r"qwen3_5|Qwen3_5")
    own = {f"{name.replace('.', '/')}.py" for name in grafting.grafted}
    wanted = {
        (path, line)
        for path in donor.paths()
        if path.startswith("vllm/") and path.endswith(".py") and path not in own
        for line, word in words_outside_comments(donor.read(path))
        if family.search(word)
    }
    assert len(wanted) > 20
    assert wanted <= {(site.path, site.line) for site in grafting.edits.sites}


@pytest.mark.network
@pytest.mark.full
def test_a_word_that_the_base_uses_for_another_model_is_not_the_familys(
    shared_opener: Opener,
) -> None:
    # The donor's registry sends GraniteSWA to granite.py, which the base has too, older.
    grafting = graft(
        files_of(shared_opener, "0.27.1"),
        files_of(shared_opener, "0.29.0"),
        ["GraniteSWAForCausalLM"],
    )
    assert [site.identifier for site in grafting.edits.sites] == ["GraniteSWAForCausalLM"]
    assert '"GraniteSWAForCausalLM": ("granite__from_0_17_1", "GraniteForCausalLM")' in (
        grafting.edited("vllm/model_executor/models/registry.py")
    )


def test_comments_and_documentation_are_no_sites() -> None:
    grafting = okapi(
        '"""Okapi."""\n\n\ndef run(model_type):\n    # okapi\n    """okapi"""\n    return 1\n'
    )
    assert all(site.path != ENGINE for site in grafting.edits.sites)


def test_a_name_made_from_the_familys_is_a_site() -> None:
    grafting = okapi("def run(model_type):\n    return okapi_layout(model_type)\n")
    site = grafting.site(ENGINE, "okapi_layout")
    assert site.decision == "refuse"
    assert any(finding.site.path == ENGINE for finding in grafting.edits.findings)


def test_another_models_file_is_told_once_and_left_alone() -> None:
    base = small_vllm()
    donor = with_okapi(base)
    donor[f"{MODELS}/antelope.py"] = 'KIN = ["okapi", "OkapiForCausalLM"]\n\nMORE = "okapi"\n'
    grafting = graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"])
    (site,) = [site for site in grafting.edits.sites if site.path == f"{MODELS}/antelope.py"]
    assert site.decision == "not-needed"
    assert site.line == 1


def test_what_nobody_asked_for_is_not_needed() -> None:
    base = small_vllm()
    donor = with_okapi(base)
    donor["vllm/model_executor/models/registry.py"] = donor[
        "vllm/model_executor/models/registry.py"
    ].replace(
        '    "ZebraForCausalLM"',
        '    "OkapiCalfForCausalLM": ("okapi", "OkapiForCausalLM"),\n    "ZebraForCausalLM"',
    )
    grafting = graft(HeldFiles(base), HeldFiles(donor), ["OkapiForCausalLM"])
    site = grafting.site("vllm/model_executor/models/registry.py", "OkapiCalfForCausalLM")
    assert site.decision == "not-needed"
    assert "OkapiCalf" not in grafting.edited("vllm/model_executor/models/registry.py")


def test_an_unknown_architecture_is_refused_with_near_names() -> None:
    donor = HeldFiles(with_okapi(small_vllm()))
    with pytest.raises(RequestError) as caught:
        graft(HeldFiles(small_vllm()), donor, ["OkapyForCausalLM"])
    assert "OkapiForCausalLM" in caught.value.remedy


@pytest.mark.parametrize("feature", ["mtp", "reasoning-parser=no", "tool-parser=no", "speed"])
def test_a_feature_that_the_donor_lacks_is_refused(feature: str) -> None:
    donor = HeldFiles(with_okapi(small_vllm()))
    with pytest.raises(RequestError):
        graft(HeldFiles(small_vllm()), donor, ["OkapiForCausalLM"], features=[feature])
