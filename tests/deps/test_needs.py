# What grafted modules need of transformers, and what the shipped table says to each need.
from textwrap import dedent

import pytest

from vllm_graft.deps.needs import Need, names_from, needs_of_modules
from vllm_graft.deps.releases import PublishedTransformers
from vllm_graft.values.plan import GraftedModule
from vllm_graft.workflows.judge_pins import published_releases


def module(text: str, path: str = "vllm/transformers_utils/configs/okapi.py") -> GraftedModule:
    name = path.removesuffix(".py").replace("/", ".")
    return GraftedModule(name=name, path=path, kind="donor", why="", origin=name, text=dedent(text))


def needs(*texts: str) -> dict[tuple[str, str], Need]:
    modules = [module(text, f"vllm/part{place}.py") for place, text in enumerate(texts)]
    return {(need.kind, need.name): need for need in needs_of_modules(modules)}


def release(version: str) -> PublishedTransformers:
    found = published_releases().release(version)
    assert found is not None
    return found


def test_names_are_needed_that_the_module_or_one_of_its_functions_imports() -> None:
    found = needs(
        """
        import transformers
        from transformers import AutoConfig
        from transformers.models.qwen2 import Qwen2Config as Config
        def later():
            from transformers.audio_utils import AudioInput
        """
    )
    assert set(found) == {
        ("name", ""),
        ("name", "AutoConfig"),
        ("name", "Qwen2Config"),
        ("name", "AudioInput"),
    }


@pytest.mark.parametrize(
    "guard",
    [
        "try:",
        "if TYPE_CHECKING:",
        "if Version(transformers.__version__) >= Version('5'):",
        "if current_platform.is_rocm():",
    ],
)
def test_what_the_donor_guards_is_no_need(guard: str) -> None:
    text = f"{guard}\n    from transformers import Zebra\n"
    text += "except ImportError:\n    Zebra = None\n" if guard == "try:" else ""
    assert needs(text) == {}


def test_a_condition_that_follows_from_the_version_is_one_on_it() -> None:
    # vLLM 0.31.0, models/pixtral.py
    found = needs(
        """
        HAVE = importlib.metadata.version("transformers")
        IS_AXIAL = Version(HAVE) >= Version("5.17.0.dev0")
        IS_LARGE = Version(torch.__version__) >= Version("2")
        if IS_AXIAL:
            from transformers import Okapi
        else:
            from transformers import Zebra as Okapi
        def later():
            if not IS_AXIAL:
                from transformers import Quagga
        if IS_LARGE:
            from transformers import Gnu
        """
    )
    assert set(found) == {("name", "Gnu")}


def test_other_packages_are_read_in_the_same_way() -> None:
    (found,) = names_from(
        [module("import torchaudio.compliance.kaldi as kaldi\nimport torch")], "torchaudio"
    )
    assert found.wanted == "torchaudio.compliance.kaldi"


def test_a_call_that_an_older_signature_does_not_take_is_seen() -> None:
    # vLLM 0.17.1, transformers_utils/configs/qwen3_5.py
    found = needs(
        """
        from transformers.configuration_utils import layer_type_validation
        layer_type_validation(layer_types, num_hidden_layers)
        """
    )["call", "layer_type_validation"]
    assert found.met_by(release("4.56.2")) is False
    assert found.lack(release("4.56.2")) == "layer_type_validation(layer_types)"
    assert found.met_by(release("4.57.1")) is True


@pytest.mark.parametrize("call", ["f(*each)", "f(**each)", "other(1, 2, 3)"])
def test_a_call_whose_arguments_are_not_written_down_is_not_judged(call: str) -> None:
    found = needs(
        f"""
        from transformers.configuration_utils import layer_type_validation as f
        {call}
        """
    )
    assert [kind for kind, _ in found] == ["name"]


CONFIG = """
from transformers.configuration_utils import PretrainedConfig
class TextConfig(PretrainedConfig):
    def __init__(self, **kwargs):
        {body}
        super().__init__(**kwargs)
    def own(self): ...
"""


def test_a_method_that_the_parent_of_all_configs_gained_late_is_seen() -> None:
    # vLLM 0.27.1, transformers_utils/configs/qwen3_5.py
    found = needs(CONFIG.format(body="self.validate_layer_type()"))
    need = found["config member", "validate_layer_type"]
    known = [each.version for each in published_releases().every() if need.met_by(each)]
    assert known[0] == "5.4.0"
    assert need.lack(release("4.57.6")) == "PretrainedConfig has no validate_layer_type"


@pytest.mark.parametrize(
    "body",
    [
        "self.own()",
        "if hasattr(self, 'validate_layer_type'): self.validate_layer_type()",
        "self.hook = print; self.hook()",
    ],
)
def test_what_a_config_class_has_itself_or_asks_for_first_is_no_need(body: str) -> None:
    assert [kind for kind, _ in needs(CONFIG.format(body=body))] == ["name"]


def test_a_config_class_is_followed_to_its_parent_in_another_grafted_file() -> None:
    child = """
    from vllm.part0 import TextConfig
    class MoeConfig(TextConfig):
        def __init__(self, **kwargs):
            self.own()
            self.validate_layer_type()
    """
    found = needs(CONFIG.format(body="pass"), child)
    assert ("config member", "validate_layer_type") in found
    assert ("config member", "own") not in found


def test_a_list_where_a_set_is_joined_is_seen_in_the_releases_that_join_it() -> None:
    # vLLM 0.17.1, transformers_utils/configs/qwen3_5.py
    body = "kwargs['ignore_keys_at_rope_validation'] = ['mrope_section']"
    need = needs(CONFIG.format(body=body))["set argument", "ignore_keys_at_rope_validation"]
    refusing = [each.version for each in published_releases().every() if not need.met_by(each)]
    assert refusing == ["5.2.0", "5.4.0"]


def test_a_set_is_no_list() -> None:
    body = "kwargs['ignore_keys_at_rope_validation'] = {'mrope_section'}"
    assert [kind for kind, _ in needs(CONFIG.format(body=body))] == ["name"]


def test_a_class_of_another_parent_is_not_judged_as_a_config() -> None:
    text = CONFIG.replace("PretrainedConfig", "PreTrainedModel").format(body="self.anything()")
    assert [kind for kind, _ in needs(text)] == ["name"]
