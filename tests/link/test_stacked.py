"""Maps of weight names that stack: the graft loads what the donor loads, and the engine still reads plain names."""

import pytest

from linking import MODEL, Linking, linked

UTILS = "vllm/model_executor/models/utils.py"
LAYERS = "vllm/model_executor/layers/linear.py"
HEAD = "from dataclasses import dataclass, field\n\n\n"
FIELDS = "    orig_to_new_prefix: dict = field(default_factory=dict)\n"
OLD_MAP = (
    "@dataclass\nclass WeightsMapper:\n" + FIELDS + "\n"
    "    def __or__(self, other):\n"
    "        return WeightsMapper(orig_to_new_prefix={**self.orig_to_new_prefix, **other.orig_to_new_prefix})\n\n"
    "    def _map_name(self, key):\n"
    "        for prefix, new in self.orig_to_new_prefix.items():\n"
    "            if key.startswith(prefix):\n"
    "                key = key.replace(prefix, new, 1)\n"
    "        return key\n\n"
    "    def apply(self, weights):\n"
    "        return ((self._map_name(name), data) for name, data in weights)\n\n"
    "    def apply_list(self, values):\n"
    "        return [self._map_name(name) for name in values]\n\n\n"
)
NEW_MAP = (
    "@dataclass\nclass WeightsMapper:\n"
    "    orig_to_new_renamings: list = field(default_factory=list)\n" + FIELDS + ""
    "    orig_to_new_stacked: dict = field(default_factory=dict)\n\n"
    "    def __or__(self, other):\n"
    "        return WeightsMapper(\n"
    "            orig_to_new_renamings=[*self.orig_to_new_renamings, *other.orig_to_new_renamings],\n"
    "            orig_to_new_prefix={**self.orig_to_new_prefix, **other.orig_to_new_prefix},\n"
    "            orig_to_new_stacked={**self.orig_to_new_stacked, **other.orig_to_new_stacked},\n"
    "        )\n\n"
    "    def _map_name(self, key):\n        return self._map_name_with_shard(key)[0]\n\n"
    "    def _map_name_with_shard(self, key):\n"
    "        for renaming in self.orig_to_new_renamings:\n            key = renaming(key)\n"
    "        shard = None\n"
    "        for part, (new, new_shard) in self.orig_to_new_stacked.items():\n"
    "            if part in key:\n                key, shard = key.replace(part, new, 1), new_shard\n"
    "        for prefix, new in self.orig_to_new_prefix.items():\n"
    "            if key.startswith(prefix):\n"
    "                key = key.replace(prefix, new, 1)\n"
    "        return key, shard\n\n"
    "    def apply(self, weights):\n"
    "        for name, data in weights:\n"
    "            new, shard = self._map_name_with_shard(name)\n"
    "            if shard is not None:\n                data.shard_id = shard\n"
    "            yield new, data\n\n"
    "    def apply_list(self, values):\n"
    "        return [self._map_name(name) for name in values]\n\n"
    "    def get_unstacked_mapper(self):\n"
    "        return WeightsMapper(orig_to_new_prefix=self.orig_to_new_prefix)\n\n\n"
)
LOADER = (
    "class AutoWeightsLoader:\n"
    "    def __init__(self, module):\n        self.module = module\n\n"
    "    def _load_param(self, base_prefix, param, weights):\n"
    "        for name, data in weights:\n"
    "            weight_loader = param.weight_loader\n"
    "            weight_loader(param, data)\n"
    "            yield base_prefix\n\n"
    "    def _load_module(self, prefix, module, weights):\n"
    "        load = getattr(module, 'load_weights', None)\n"
    "        if module is not self.module and load is not None:\n"
    "            yield from load(weights)\n            return\n"
    "        for name, data in weights:\n"
    "            first, _, rest = name.partition('.')\n"
    "            found = getattr(module, first)\n"
    "            if rest:\n"
    "                yield from self._load_module(first, found, [(rest, data)])\n"
    "            else:\n"
    "                yield from self._load_param(first, found, [('', data)])\n\n"
    "    def load_weights(self, weights, *, mapper=None):\n"
    "        if mapper is not None:\n            weights = mapper.apply(weights)\n"
    "        return sorted(set(self._load_module('', self.module, weights)))\n\n\n"
    "def init_vllm_registered_model(name):\n    return name\n"
)
LINEAR = (
    "class Parameter:\n    def __init__(self, loader):\n        self.data, self.weight_loader = {}, loader\n\n\n"
    "class QKVParallelLinear:\n"
    "    def __init__(self):\n        self.weight = Parameter(self.weight_loader)\n\n"
    "    def weight_loader(self, param, loaded_weight, loaded_shard_id=None):\n"
    "        param.data[loaded_shard_id] = loaded_weight.value\n"
)
STACKING_LINEAR = LINEAR + (
    "\n    def load_weights(self, weights):\n"
    "        for name, data in weights:\n"
    "            param = getattr(self, name)\n"
    "            param.weight_loader(param, data, getattr(data, 'shard_id', None))\n"
    "            yield name\n"
)
ENGINE = {
    "vllm/model_executor/model_loader/__init__.py": "",
    "vllm/model_executor/model_loader/utils.py": "def ignored(mapper):\n"
    "    return mapper{0}.apply_list(['old.q_proj', 'old.norm'])\n",
}
IMPORTS = (
    "from vllm.model_executor.layers.linear import QKVParallelLinear\n"
    "from vllm.model_executor.model_loader.utils import ignored\n"
    "from vllm.model_executor.models.utils import AutoWeightsLoader, WeightsMapper\n"
)
OKAPI = (
    "\n\nclass Tensor:\n    def __init__(self, value):\n        self.value = value\n\n\n"
    "class OkapiForCausalLM:\n"
    "    hf_to_vllm_mapper = WeightsMapper(orig_to_new_prefix={'old.': ''}) | WeightsMapper(\n"
    "        orig_to_new_stacked={'q_proj': ('qkv_proj', 'q'), 'k_proj': ('qkv_proj', 'k')}\n    )\n\n"
    "    def __init__(self):\n        self.qkv_proj = QKVParallelLinear()\n\n"
    "    def load_weights(self, weights):\n"
    "        loader = AutoWeightsLoader(self)\n"
    "        return loader.load_weights(weights, mapper=self.hf_to_vllm_mapper)\n\n"
    "    def run(self):\n"
    "        named = ['old.q_proj.weight', 'old.k_proj.weight']\n"
    "        self.load_weights((name, Tensor(i)) for i, name in enumerate(named))\n"
    "        return self.qkv_proj.weight.data, ignored(self.hf_to_vllm_mapper)\n"
)
THROUGH_NAMES = {
    "its own name": (IMPORTS, OKAPI),
    "other names": (
        IMPORTS.replace(
            "AutoWeightsLoader, WeightsMapper", "AutoWeightsLoader as A, WeightsMapper as M"
        ),
        OKAPI.replace("WeightsMapper(", "M(").replace("AutoWeightsLoader(", "A("),
    ),
    "a module": (
        IMPORTS.replace(
            "models.utils import AutoWeightsLoader, WeightsMapper", "models import utils"
        ),
        OKAPI.replace("WeightsMapper(", "utils.WeightsMapper(").replace(
            "AutoWeightsLoader(", "utils.AutoWeightsLoader("
        ),
    ),
    "a subclass": (
        IMPORTS,
        OKAPI.replace("OkapiForCausalLM", "Grazing")
        + "\n\nclass OkapiForCausalLM(Grazing):\n    pass\n",
    ),
}


def stacking(
    model: str,
    *,
    new_map: str = NEW_MAP,
    old_map: str = OLD_MAP,
    old_loader: str = LOADER,
    **more: tuple[str, str],
) -> Linking:
    """``more``: files of models by their names, the donor's text and the base's."""
    files = {f"vllm/model_executor/models/{name}.py": texts for name, texts in more.items()}
    return linked(
        donor={
            MODEL: model,
            UTILS: HEAD + new_map + LOADER,
            LAYERS: STACKING_LINEAR,
            **{path: text.format(".get_unstacked_mapper()") for path, text in ENGINE.items()},
            **{path: texts[0] for path, texts in files.items()},
        },
        base={
            UTILS: HEAD + old_map + old_loader,
            LAYERS: LINEAR,
            **{path: text.format("") for path, text in ENGINE.items()},
            **{path: texts[1] for path, texts in files.items()},
        },
    )


@pytest.mark.parametrize("form", THROUGH_NAMES)
def test_stacked_weights_are_loaded_and_the_engine_reads_plain_names(form: str) -> None:
    linking = stacking("".join(THROUGH_NAMES[form]))
    assert linking.plan.verdict == "ok"
    assert ("G201", "note") in linking.codes
    assert linking.resolutions["WeightsMapper"] == "derived"
    said = linking.answer("model.OkapiForCausalLM().run()")
    assert said == [{"q": 0, "k": 1}, ["q_proj", "norm"]]


def test_a_model_part_that_both_have_comes_along_where_marked_tensors_reach_its_loader() -> None:
    part = (
        "from vllm.model_executor.layers.linear import QKVParallelLinear\n"
        "from vllm.model_executor.models.utils import AutoWeightsLoader\n\n\n"
        "class Part:\n"
        "    def __init__(self):\n        self.qkv_proj = QKVParallelLinear()\n\n"
        "    def load_weights(self, weights):\n"
        "        return AutoWeightsLoader(self).load_weights(weights)\n"
    )
    model = (
        (IMPORTS + "from vllm.model_executor.models.part import Part\n" + OKAPI)
        .replace("self.qkv_proj = QKVParallelLinear()", "self.part = Part()")
        .replace("'old.q_proj.weight', 'old.k_proj.weight'", "'old.part.q_proj.weight'")
        .replace("self.qkv_proj.weight", "self.part.qkv_proj.weight")
    )
    linking = stacking(model, part=(part, part))
    assert linking.plan.verdict == "ok"
    assert linking.resolutions["Part"] == "grafted"
    assert linking.answer("model.OkapiForCausalLM().run()")[0] == {"q": 0}


def test_a_model_part_that_loads_in_a_way_of_its_own_stays_the_bases() -> None:
    part = (
        "class Part:\n    def load_weights(self, weights):\n        self.loaded = dict(weights)\n"
        "        return ['weight']\n"
    )
    model = (
        IMPORTS
        + "from vllm.model_executor.models.part import Part\n"
        + OKAPI
        + "\n\nMADE = Part()\n"
    )
    linking = stacking(model, part=(part, part))
    assert "Part" not in linking.resolutions
    assert "vllm.model_executor.models.part" not in {
        module.origin for module in linking.plan.modules
    }


@pytest.mark.parametrize(
    ("why", "model", "changes"),
    [
        (
            "the model gives the map more than stacking",
            IMPORTS
            + OKAPI.replace(
                "orig_to_new_stacked=", "orig_to_new_renamings=[], orig_to_new_stacked="
            ),
            {},
        ),
        (
            "the base's loader takes its steps in another way",
            IMPORTS + OKAPI,
            {
                "old_loader": LOADER.replace(
                    "            yield base_prefix\n", "            yield param\n"
                )
            },
        ),
        (
            "the base's map is made in another way",
            IMPORTS + OKAPI,
            {"old_map": OLD_MAP.replace("@dataclass\n", "@dataclass(frozen=True)\n")},
        ),
        (
            "the model makes a part by its name in the registry, which loads as the base's models do",
            IMPORTS.replace("WeightsMapper\n", "WeightsMapper, init_vllm_registered_model\n")
            + OKAPI
            + "\n    def part(self):\n        return init_vllm_registered_model('part')\n",
            {},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_a_map_that_stacks_is_refused_where(why: str, model: str, changes: dict[str, str]) -> None:
    del why
    linking = stacking(model, **changes)  # pyright: ignore[reportArgumentType]
    assert linking.plan.verdict == "blocked"
    assert ("G201", "blocked") in linking.codes
