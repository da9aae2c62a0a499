# Runs in the runtime environment, with transformers and without vLLM.
"""Write tiny models to disk: configuration, random weights under published tensor names, a tokenizer.

usage: python -P inside_checkpoints.py RECIPE.json FOLDER
"""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = 512
MARKS = ("<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")

REMOTE_CONFIGURATION = """
from transformers import LlamaConfig, NemotronHConfig, PretrainedConfig
from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeVisionConfig


class TinyConfig(PretrainedConfig):
    def __init__(self, **values):
        self.model_type = values.pop("model_type", "tiny")
        super().__init__(**values)


class TinyMobiusConfig(PretrainedConfig):
    model_type = "interns2_mobius"
    sub_configs = {"text_config": TinyConfig, "vision_config": Qwen3_5MoeVisionConfig}

    def __init__(self, text_config=None, vision_config=None, **values):
        self.text_config = TinyConfig(**(text_config or {}))
        self.vision_config = Qwen3_5MoeVisionConfig(**(vision_config or {}))
        super().__init__(**values)


class TinyLlamaConfig(LlamaConfig):
    model_type = "tiny_llama"


class TinyNemotronConfig(PretrainedConfig):
    model_type = "NemotronH_Nano_VL_V2"
    sub_configs = {"text_config": NemotronHConfig, "vision_config": TinyConfig}

    def __init__(self, text_config=None, vision_config=None, **values):
        self.text_config = NemotronHConfig(**(text_config or {}))
        self.text_config.architectures = ["NemotronHForCausalLM"]
        self.vision_config = TinyConfig(**(vision_config or {}))
        super().__init__(**values)
"""
"""The configuration classes of checkpoints that bring their own (``auto_map``): they keep what the file says."""


REMOTE_MODEL = """
from transformers import LlamaForCausalLM, LlamaModel

from .configuration_tiny import TinyLlamaConfig


class TinyLlamaModel(LlamaModel):
    config_class = TinyLlamaConfig


class TinyLlamaForCausalLM(LlamaForCausalLM):
    config_class = TinyLlamaConfig
"""
"""Model code of a checkpoint that brings its own, for vLLM's transformers backend."""


def write_tokenizer(folder: Path, extra: tuple[str, ...]) -> None:
    """A byte-level tokenizer: 256 bytes and the marks, nothing merged."""
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",  # noqa: S106
        pad_token="<|endoftext|>",  # noqa: S106
        additional_special_tokens=[*MARKS, *extra],
        model_max_length=2048,
    ).save_pretrained(folder)
    # transformers 5 writes a class name and a list of tokens in ways that 4.x does not know; these both do.
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    settings["additional_special_tokens"] = settings.pop("extra_special_tokens", [*MARKS, *extra])
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


def randomise(model: Any, recipe: dict[str, Any]) -> None:
    """Give weights that keep activations at their size, so that tokens are told apart by a margin."""
    gain, head_gain = recipe["gain"], recipe["head_gain"]
    generator = torch.Generator().manual_seed(recipe["seed"])
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if "A_log" in name or "dt_bias" in name or name.endswith(".D"):
                parameter.add_(0.1 * noise)
            elif parameter.dim() >= 2 and "norm" not in name:
                if "embed_tokens" in name:
                    noise *= recipe["embed_gain"]
                else:
                    fan_in = (
                        parameter.shape[-1]
                        if parameter.dim() != 4
                        else math.prod(parameter.shape[1:])
                    )
                    noise *= (head_gain if "lm_head" in name else gain) / math.sqrt(fan_in)
                parameter.copy_(noise)
            else:
                parameter.add_(0.1 * noise)


def write_tensors(file: Path, recipe: dict[str, Any]) -> None:
    """Write tensors by name and shape, bfloat16 as most published checkpoints are."""
    generator = torch.Generator().manual_seed(recipe["seed"])
    tensors = {}
    for name, shape in sorted(recipe["tensors"].items()):
        noise = torch.randn(shape, generator=generator)
        spread = recipe["gain"] / math.sqrt(shape[-1]) if len(shape) > 1 else 0.1
        tensors[name] = (noise * spread).to(torch.bfloat16)
    save_file(tensors, file, metadata={"format": "pt"})


def rename(file: Path, renames: list[list[str]]) -> None:
    """Give tensors their published names where transformers writes others."""
    tensors = {}
    for name, tensor in load_file(file).items():
        published = name
        for pattern, replacement in renames:
            published = re.sub(pattern, replacement, published)
        tensors[published] = tensor
    save_file(tensors, file, metadata={"format": "pt"})


def main(recipe_file: Path, folder: Path) -> None:
    """Write one model."""
    recipe = json.loads(recipe_file.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, tuple(recipe.get("marks", ())))
    if "auto_map" in {**recipe["config"], **recipe.get("config_json", {})}:
        (folder / "configuration_tiny.py").write_text(REMOTE_CONFIGURATION)
        (folder / "modeling_tiny.py").write_text(REMOTE_MODEL)
    for name, content in recipe.get("files", {}).items():
        (folder / name).write_text(json.dumps(content))
    if recipe["config_class"] is None:
        if "tensors" in recipe:
            write_tensors(folder / "model.safetensors", recipe)
        written = {"architectures": [recipe["architecture"]], **recipe["config"]}
        (folder / "config.json").write_text(json.dumps(written, indent=1))
        return
    config = getattr(transformers, recipe["config_class"])(**recipe["config"])
    config.architectures = [recipe["architecture"]]
    if recipe["model_class"] is None:
        config.save_pretrained(folder)
    else:
        torch.manual_seed(recipe["seed"])
        model = getattr(transformers, recipe["model_class"])(config).float()
        randomise(model, recipe)
        model.save_pretrained(folder)
        print(sum(p.numel() for p in model.parameters()), "parameters of", type(model).__name__)
        if recipe["renames"]:
            rename(folder / "model.safetensors", recipe["renames"])
    written = json.loads((folder / "config.json").read_text())
    written["architectures"] = [recipe["architecture"]]
    written |= recipe.get("config_json", {})
    (folder / "config.json").write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
