"""Overrides that take a record of the donor's, which the base's engine calls with the record's fields."""

import pytest

from linking import LAYERS, MODEL, Linking, linked

PARAMS = "vllm/config/speech.py"
START = "vllm/v1/start.py"
CONFIG = "class Config:\n    rate = 16\n"
RECORD = (
    "from dataclasses import dataclass\n\n\n"
    + CONFIG
    + "\n\n@dataclass\nclass Params:\n    audio: int\n    language: str\n    hot: str = 'none'\n"
)
PARENT = "from vllm.config.speech import Params\n\n\nclass Speaks:\n    def prompt(cls, params: Params):\n        ...\n"
OLD_PARENT = "class Speaks:\n    def prompt(cls, audio, language):\n        ...\n"
STARTS = (
    "from vllm.config.speech import Params\n\n\n"
    "def start(model):\n    return model.prompt(Params(audio=3, language='en'))\n"
)
OLD_STARTS = "def start(model):\n    return model.prompt(audio=3, language='en')\n"
IMPORTS = (
    "from vllm.config.speech import Params\nfrom vllm.model_executor.layers.library import Speaks\n"
)
OKAPI = (
    "\n\nclass OkapiForCausalLM(Speaks):\n"
    "    @classmethod\n"
    "    def prompt(cls, params: Params) -> str:\n"
    '        """Say what was asked."""\n'
    "        return f'{params.audio} {params.language} {params.hot}'\n\n"
    "    @classmethod\n"
    "    def run(cls):\n        return cls.prompt(Params(audio=5, language='fr', hot='yes'))\n"
)
ASK = "importlib.import_module('vllm.v1.start').start(model.OkapiForCausalLM), model.OkapiForCausalLM.run()"
MODELS = {
    "its own name": IMPORTS + OKAPI,
    "another name": (IMPORTS + OKAPI)
    .replace("import Params", "import Params as P")
    .replace("params: Params", "params: P")
    .replace("Params(audio", "P(audio"),
    "a subclass": IMPORTS
    + OKAPI.replace("OkapiForCausalLM", "Grazing")
    + "\n\nclass OkapiForCausalLM(Grazing):\n    pass\n",
}


def speaking(model: str, *, record: str = RECORD, base: str = OLD_STARTS) -> Linking:
    parent = OLD_PARENT.replace("language)", "language, voice)") if "voice" in base else OLD_PARENT
    return linked(
        donor={MODEL: model, LAYERS: PARENT, PARAMS: record, START: STARTS},
        base={LAYERS: parent, PARAMS: CONFIG, START: base},
    )


@pytest.mark.parametrize("form", MODELS)
def test_what_the_base_passes_by_name_is_gathered_into_the_record(form: str) -> None:
    linking = speaking(MODELS[form])
    assert linking.plan.verdict == "ok"
    assert ("G219", "note") in linking.codes
    assert linking.answer(ASK) == ["3 en none", "5 fr yes"]


@pytest.mark.parametrize(
    ("why", "model", "record", "base"),
    [
        (
            "the base passes something that the record has not",
            IMPORTS + OKAPI,
            RECORD,
            OLD_STARTS.replace("audio=3", "audio=3, voice='low'"),
        ),
        (
            "the base does not pass what the record asks for",
            IMPORTS + OKAPI,
            RECORD.replace("language: str", "language: str\n    speaker: str"),
            OLD_STARTS,
        ),
        (
            "the base passes by position",
            IMPORTS + OKAPI,
            RECORD,
            OLD_STARTS.replace("audio=3", "3"),
        ),
        (
            "the record is more than data",
            IMPORTS + OKAPI,
            RECORD.replace("class Params:", "class Params(Config):"),
            OLD_STARTS,
        ),
        (
            "the override takes more than the record",
            IMPORTS + OKAPI.replace("params: Params)", "params: Params, *more)"),
            RECORD,
            OLD_STARTS,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_an_override_is_not_called_otherwise_where(
    why: str, model: str, record: str, base: str
) -> None:
    del why
    linking = speaking(model, record=record, base=base)
    assert linking.plan.verdict == "blocked"
    assert ("G219", "blocked") in linking.codes
