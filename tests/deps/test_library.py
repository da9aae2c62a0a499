# What the modules of a distribution bind, in the forms in which transformers writes them down.
from collections.abc import Mapping, Sequence
from textwrap import dedent

import pytest

from vllm_graft.deps.library import Library


class HeldText:
    """Text files by path."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: dedent(text) for path, text in files.items()}

    def read(self, path: str) -> str | None:
        return self._files.get(path)

    def names(self, folder: str) -> Sequence[str]:
        inside = (path for path in self._files if not folder or path.startswith(f"{folder}/"))
        return sorted({path[len(folder) :].lstrip("/").partition("/")[0] for path in inside})


TOP = """
    from typing import TYPE_CHECKING
    from .utils import _LazyModule
    from .utils.import_utils import define_import_structure
    _import_structure = {"configuration_utils": ["PretrainedConfig"], "image_utils": []}
    _import_structure["modeling_utils"] = ["PreTrainedModel"]
    _import_structure["generation"].extend(["GenerationConfig"])
    if TYPE_CHECKING:
        from .configuration_utils import PretrainedConfig as PretrainedConfig
        from .models import *
    else:
        import_structure = define_import_structure(Path(__file__).parent / "models", prefix="models")
        sys.modules[__name__] = _LazyModule(__name__, globals()["__file__"], import_structure)
        _create_module_alias(f"{__name__}.tokenization_utils", ".tokenization_python")
        _create_module_alias(f"{__name__}.models.{_model}.{_module}_fast", _target)
"""
FILES = {
    "transformers/__init__.py": TOP,
    "transformers/configuration_utils.py": """
        from .utils.hub import PushToHubMixin
        from .mixins import *

        class PreTrainedConfig(PushToHubMixin, RotaryMixin):
            model_type = ""
            def __init__(self, **kwargs):
                self.architectures = None
            def to_dict(self): ...

        PretrainedConfig = PreTrainedConfig

        def layer_type_validation(layer_types, num_hidden_layers=None): ...
    """,
    "transformers/mixins.py": """
        __all__ = ["RotaryMixin"]
        class RotaryMixin:
            def validate_rope(self): ...
        class Hidden: ...
    """,
    "transformers/utils/__init__.py": "from .hub import PushToHubMixin",
    "transformers/utils/hub.py": "class PushToHubMixin:\n    def push_to_hub(self): ...",
    "transformers/tokenization_python.py": "class PreTrainedTokenizer: ...",
    "transformers/models/__init__.py": """
        from ..utils.import_utils import define_import_structure
        sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file))
    """,
    "transformers/models/okapi/__init__.py": """
        if TYPE_CHECKING:
            from .configuration_okapi import *
        else:
            sys.modules[__name__] = _LazyModule(__name__, _file, define_import_structure(_file))
    """,
    "transformers/models/okapi/configuration_okapi.py": """
        class OkapiConfig: ...
        class OkapiInner: ...
        __all__ = ["OkapiConfig"]
    """,
    "transformers/models/okapi/image_processing_okapi.py": """
        @requires(backends=("torch",))
        class OkapiImageProcessor: ...
    """,
    "transformers/made.py": "def __getattr__(name): ...",
    "transformers/guarded.py": """
        try:
            from other import thing
        except ImportError:
            thing = None
        if is_torch_available():
            class Layer: ...
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from other import OnlyType
    """,
    "torch/__init__.py": "from torch._C import *",
    "torch/_C.cpython-312-x86_64-linux-gnu.so": "",
}
LIBRARY = Library(HeldText(FILES))


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        ("transformers", "PretrainedConfig", True),
        ("transformers", "PreTrainedModel", True),
        ("transformers", "GenerationConfig", True),
        ("transformers", "OkapiConfig", True),
        ("transformers", "OkapiImageProcessor", True),
        ("transformers", "ZebraConfig", False),
        ("transformers.models.okapi", "OkapiConfig", True),
        ("transformers.models.okapi", "OkapiInner", False),
        ("transformers.models.okapi", "configuration_okapi", True),
        ("transformers.models", "okapi", True),
        ("transformers.models.zebra", "ZebraConfig", False),
        ("transformers.models.okapi.configuration_okapi", "OkapiInner", True),
        ("transformers.models.okapi.configuration_okapi", "ZebraConfig", False),
        ("transformers.configuration_utils", "RotaryMixin", True),
        ("transformers.configuration_utils", "Hidden", False),
        ("transformers.utils", "PushToHubMixin", True),
        ("transformers.utils", "hub", True),
        ("transformers.guarded", "thing", True),
        ("transformers.guarded", "Layer", True),
        ("transformers.guarded", "OnlyType", False),
    ],
)
def test_a_name_is_found_where_an_import_would_find_it(
    module: str, name: str, told: object
) -> None:
    assert LIBRARY.binds(module, name) is told


@pytest.mark.parametrize(
    ("module", "name", "told"),
    [
        ("transformers.tokenization_utils", "PreTrainedTokenizer", True),
        ("transformers.tokenization_utils", "Other", False),
        (
            "transformers.models.okapi.image_processing_okapi_fast",
            "OkapiImageProcessorFast",
            True,
        ),
        ("transformers.models.okapi.image_processing_okapi_fast", "smart_resize", None),
        ("transformers.models.okapi", "OkapiImageProcessorFast", None),
    ],
)
def test_old_names_lead_to_new_ones_as_far_as_the_text_tells(
    module: str, name: str, told: object
) -> None:
    assert LIBRARY.binds(module, name) is told


@pytest.mark.parametrize(
    ("module", "name"), [("transformers.made", "Anything"), ("torch", "Tensor"), ("torch._C", "x")]
)
def test_what_makes_its_names_as_it_runs_tells_nothing(module: str, name: str) -> None:
    assert LIBRARY.binds(module, name) is None


def test_the_members_of_a_class_are_those_of_its_parents_too() -> None:
    for name in ("PretrainedConfig", "PreTrainedConfig"):
        members = LIBRARY.members("transformers.configuration_utils", name)
        assert {
            "to_dict",
            "model_type",
            "architectures",
            "push_to_hub",
            "validate_rope",
        } <= members


def test_a_definition_is_followed_through_other_names() -> None:
    found = LIBRARY.definition("transformers.configuration_utils", "PushToHubMixin")
    assert found is not None
    assert found[0] == "transformers.utils.hub"
