"""Rows of the specification: what the donor asks, what the base gives, what is said and done."""

from dataclasses import dataclass, field

from linking import LAYERS, MODEL, Linking, linked
from vllm_graft.values.install import NativeCode

LIBRARY = "from vllm.model_executor.layers.library import "


@dataclass(frozen=True, kw_only=True)
class Row:
    """``donor`` and ``base`` are the engine's library; ``model`` is the donor's model file."""

    name: str
    model: str
    donor: str = ""
    base: str = ""
    files: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Further files: path → (the donor's text, the base's text); an empty text is no file."""
    codes: set[str]
    """Code and severity, as in ``G201 note``."""
    resolutions: dict[str, str] = field(default_factory=dict[str, str])
    ask: str = ""
    """An expression over the model's module to which graft and donor must say the same."""
    native: NativeCode | None = None

    def link(self) -> Linking:
        files = {LAYERS: (self.donor, self.base), MODEL: (self.model, ""), **self.files}
        return linked(
            donor={path: texts[0] for path, texts in files.items() if texts[0]},
            base={path: texts[1] for path, texts in files.items() if texts[1]},
            native=self.native,
        )


def a_model(imports: str, *body: str, bases: str = "") -> str:
    """A model module: imports, and a class whose ``run`` has this body."""
    lines = "".join(f"        {line}\n" for line in body)
    return f"{imports}\n\n\nclass OkapiForCausalLM{bases}:\n    def run(self):\n{lines}"


def check(row: Row) -> None:
    """Hold what is said and done against a row, and the graft against the donor."""
    linking = row.link()
    assert {f"{code} {severity}" for code, severity in linking.codes} == row.codes
    assert row.resolutions.items() <= linking.resolutions.items()
    severities = {word.split()[1] for word in row.codes}
    verdict = next((s for s in ("blocked", "review") if s in severities), "ok")
    assert linking.plan.verdict == verdict
    if row.ask:
        linking.answer(row.ask)
