"""A package that grafted code imports and nothing in the base does: it can be added, or nobody knows what it is."""

from dataclasses import replace

import pytest

from contract_rows import a_model
from held import small_vllm, with_okapi
from linking import MODEL, install_of, packages
from vllm_graft.link.plan import LinkRequest, link
from vllm_graft.values.install import Distribution
from vllm_graft.values.plan import GraftPlan


def planned(model: str, *requires: str) -> GraftPlan:
    before = {**packages(), **small_vllm()}
    donor = install_of({**with_okapi(before), MODEL: model}, "0.17.1")
    distribution = Distribution(name="vllm", version="0.17.1", requires=requires)
    return link(
        install_of(before, "0.14.1"),
        replace(donor, distributions=(distribution,)),
        LinkRequest(architectures=("OkapiForCausalLM",)),
    )


@pytest.mark.parametrize(
    "model",
    [
        a_model("import quagga_tools", "return quagga_tools.run()"),
        a_model("from quagga_tools import run as go", "return go()"),
        a_model("import quagga_tools.legs", "return 1")
        + "\n\nclass OkapiForReading(OkapiForCausalLM):\n    pass\n",
    ],
    ids=["by its name", "through an alias", "through a subclass"],
)
@pytest.mark.parametrize(
    ("requires", "severity", "decision"),
    [
        (("quagga-tools>=1.2",), "review", "add"),
        (("quagga-tools[fast]>=1.2; python_version >= '3'",), "review", "add"),
        (("quagga-tools>=1.2; extra == 'fast'",), "blocked", "missing"),
        (("zebra>=1",), "blocked", "missing"),
        ((), "blocked", "missing"),
    ],
)
def test_a_package_that_the_donor_asks_for_can_be_added(
    model: str, requires: tuple[str, ...], severity: str, decision: str
) -> None:
    plan = planned(model, *requires)
    (finding,) = plan.findings
    assert (finding.code, finding.severity) == ("G211", severity)
    (decided,) = plan.dependencies
    assert (decided.name, decided.decision) == ("quagga-tools", decision)
    if decision == "add":
        assert "quagga-tools>=1.2" in finding.wanted


USES = {"vllm/model_executor/layers/library.py": "import quagga\nimport torch\n"}


def read_of(package: str, *, base: str = "", donor: str = "") -> set[str]:
    """Codes of a graft that reads a name behind a package that the base imports and never reads it of."""
    before = {**packages(), **small_vllm(), **USES}
    model = a_model(f"import {package} as q", "return q.gallop()")
    installs = (
        install_of(before, "0.14.1"),
        install_of({**with_okapi(before), MODEL: model}, "0.17.1"),
    )
    asking = [
        replace(
            install,
            distributions=(Distribution(name="vllm", version=install.version, requires=(pin,)),),
        )
        if pin
        else install
        for install, pin in zip(installs, (base, donor), strict=True)
    ]
    plan = link(asking[0], asking[1], LinkRequest(architectures=("OkapiForCausalLM",)))
    return {finding.code for finding in plan.findings}


def test_a_name_behind_a_package_is_doubtful_where_the_donor_asks_for_other_versions() -> None:
    assert read_of("quagga", base="quagga>=1", donor="quagga>=2") == {"G402"}
    assert read_of("quagga", base="quagga>=1", donor="quagga>=1") == set()
    assert read_of("quagga") == {"G402"}


def test_a_name_of_torch_is_none() -> None:
    assert read_of("torch", base="torch==2.9.1", donor="torch==2.10.0") == set()


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (("import quagga_tools", "return quagga_tools.run()"), {"G211"}),
        (("try:", "    import quagga_tools", "except ImportError:", "    return 1"), set[str]()),
        (("if self.fast:", "    import quagga_tools", "return 1"), set[str]()),
    ],
    ids=["whatever happens", "at its own risk", "where something says so"],
)
def test_a_package_that_a_function_imports_is_missed_where_nothing_asks_first(
    body: tuple[str, ...], codes: set[str]
) -> None:
    assert {finding.code for finding in planned(a_model("", *body)).findings} == codes
