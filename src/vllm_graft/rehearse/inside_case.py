# Runs inside an install (see inside.py): one case, step by step.
"""One architecture: a configuration for it, the engine's configuration, the class, its weights."""

import contextlib
import dataclasses
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm_graft.rehearse import (
    inside_asserts,
    inside_config,
    inside_drafts,
    inside_registry,
    inside_stand_ins,
    inside_supply,
    inside_tensors,
    inside_weights,
)
from vllm_graft.rehearse.shrink import Limits, shrink

STEPS = (
    "configuration",
    "engine configuration",
    "class constructed",
    "tensor names",
    "weights loaded",
)
"""In order. ``until`` of a request names the last that is wanted."""

MOST_TRIES = 80

ENGINE = {
    "max_model_len": 256,
    "max_num_seqs": 4,
    "enforce_eager": True,
    "dtype": "bfloat16",
    "enable_prefix_caching": False,
    "load_format": "dummy",
}
"""Arguments of ``EngineArgs`` beside those of the request; what a release does not know is left out."""


@dataclass(slots=True, kw_only=True)
class Case:
    """A question about one architecture; ``asked`` is described in docs/inside.md."""

    asked: dict[str, Any]
    scratch: Path
    found: dict[str, Any] = field(default_factory=dict)
    tries: int = 0

    def answer(self) -> dict[str, Any]:
        """Go as far as it goes; keep what was found, and what went wrong where."""
        self.found = {"reached": [], "times": {}}
        step = STEPS[0]
        try:
            folder = self._timed(step, self._configuration)
            step = STEPS[1]
            while self._wanted(step):
                try:
                    step = STEPS[1]
                    config = self._timed(step, self._engine_configuration, folder)
                    if not self._wanted(STEPS[2]):
                        break
                    step = STEPS[2]
                    model = self._timed(step, self._construct, config)
                    break
                except Exception as error:
                    if not self._supplied(error, folder):
                        raise
            for step in STEPS[3:]:
                if not self._wanted(step):
                    break
                if step == "tensor names":
                    names = self._timed(
                        step, inside_tensors.tensors, self.asked, model, config, self.found
                    )
                else:
                    self.found |= self._timed(
                        step, inside_weights.load, self.asked, model, config, names
                    )
        except BaseException as error:
            self.found["failed"] = step
            self.found["kind"] = type(error).__name__
            self.found["error"] = f"{type(error).__name__}: {error}"
            self.found["traceback"] = traceback.format_exc()
            self.found["where"] = last_of_the_tree(inside_asserts.cause(error))
        self._registered()
        if inside_stand_ins.used:
            self.found["stand_ins"] = list(inside_stand_ins.used)
        return self.found

    def _registered(self) -> None:
        """Keep what the registry says; after the import of the class, whose own error tells more."""
        if "registry" not in self.found:
            self.found["registry"] = inside_registry.inspected(self.asked["architecture"])

    def _wanted(self, step: str) -> bool:
        return STEPS.index(step) <= STEPS.index(self.asked.get("until", STEPS[-1]))

    def _timed(self, step: str, work: Callable[..., Any], *given: Any) -> Any:
        begin = time.monotonic()
        made = work(*given)
        self.found["times"][step] = round(time.monotonic() - begin, 2)
        if step not in self.found["reached"]:
            self.found["reached"].append(step)
        return made

    def _supplied(self, error: BaseException, folder: Path) -> bool:
        """Supply what the model's code asked for; tell whether it is worth another try."""
        self.tries += 1
        if not self.asked.get("supply") or self.tries > MOST_TRIES:
            return False
        if self.asked.get("stand_ins") and (
            inside_stand_ins.other_runner(error) or inside_stand_ins.other_backend(error)
        ):
            return True
        configuration = self.found["configuration"]
        module = inside_config.module_of(self.asked["architecture"])
        error = inside_asserts.cause(error)
        lacking = inside_supply.lack(configuration, error)
        found: list[tuple[inside_supply.Lack, Any]] = []
        if lacking is not None:
            with contextlib.suppress(LookupError):
                found.append((lacking, inside_supply.value_for(configuration, lacking, module)))
        else:
            found = inside_asserts.demanded(configuration, error)
        supplied = self.found.setdefault("supplied", {})
        wrong = inside_supply.wrong_kind(error, configuration, supplied)
        if wrong is not None:
            name, value = wrong
            *path, last = name.split(".")
            supplied[name] = value
            inside_supply.put(configuration, inside_supply.Lack(tuple(path), last), value)
            (folder / "config.json").write_text(json.dumps(configuration, indent=1))
            return True
        new = [
            (place, value)
            for one, value in found
            for place in inside_supply.places(configuration, one)
            if place.dotted not in supplied
        ][: len(found)]
        for one, value in new:
            supplied[one.dotted] = value
            inside_supply.put(configuration, one, value)
        (folder / "config.json").write_text(json.dumps(configuration, indent=1))
        return bool(new)

    def _configuration(self) -> Path:
        """Write a model folder with a configuration and no weights."""
        if self.asked.get("stand_ins"):
            inside_stand_ins.install()
        architecture = self.asked["architecture"]
        asked = self.asked
        if inside_drafts.is_draft(architecture):
            target = self.asked.get("served_with") or inside_drafts.target_of(architecture)
            if target is not None:
                architecture, model_type = target
                self.found["served_with"] = [architecture, model_type]
                asked = {"model_type": model_type, **self.asked}
        found = inside_config.configuration(architecture, asked)
        self.found["configuration_from"] = found.origin
        config, changes = found.values, []
        if asked.get("add"):
            config = inside_config.added(config, asked["add"])
        if "served_with" in self.found:
            config = inside_drafts.with_head(config)
        if self.asked.get("shrink") is not None:
            small = shrink(config, Limits(**self.asked["shrink"]))
            config = small.config
            changes = [dataclasses.asdict(change) for change in small.changes]
        self.found["configuration"] = config
        self.found["changes"] = changes
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        if self.asked.get("tokenizer", True):
            inside_config.write_tokenizer(folder)
            inside_config.write_processors(folder, config.get("model_type"))
        for name, content in self.asked.get("files", {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(json.dumps(content))
        for name, listed in self.asked.get("tensor_files", {}).items():
            inside_weights.write(folder / name, listed)
        inside_config.know_classes(config, found, self.asked.get("class_name", "KeptConfig"))
        return folder

    def _engine_configuration(self, folder: Path | None) -> Any:
        from vllm.engine.arg_utils import EngineArgs

        # Else vLLM says only that it could not be inspected, and logs why.
        for name in (self.asked["architecture"], *self.found.get("served_with", ())[:1]):
            inside_config.import_class(name)
        self._registered()
        known = {one.name for one in dataclasses.fields(EngineArgs)}
        wanted = {**ENGINE, **self.asked.get("engine", {})}
        if not self.asked.get("tokenizer", True):
            wanted["skip_tokenizer_init"] = True
        if self.found.get("served_with"):
            wanted.setdefault("speculative_config", {"method": "mtp", "num_speculative_tokens": 1})
        elif inside_drafts.is_draft(self.asked["architecture"]):
            wanted.setdefault(
                "speculative_config",
                inside_drafts.own_checkpoint(self.asked["architecture"], folder),
            )
            folder = inside_drafts.plain_target(folder, self.found["configuration"])
        unknown = sorted(set(self.asked.get("engine", {})) - known)
        if unknown:
            message = f"EngineArgs of this release has no {', '.join(unknown)}"
            raise ValueError(message)
        arguments = {k: v for k, v in wanted.items() if k in known}
        config = EngineArgs(model=str(folder), **arguments).create_engine_config()
        served = config.model_config.hf_config
        self.found["configuration_class"] = f"{type(served).__module__}.{type(served).__qualname__}"
        self.found["settings"] = settings(config)
        return config

    def _construct(self, config: Any) -> Any:
        import torch
        from vllm.model_executor.model_loader.utils import initialize_model
        from vllm.utils.torch_utils import set_default_torch_dtype

        process_groups(config)
        model_config = served(config)
        devices = ("meta", "cpu") if self.asked.get("device") == "meta" else ("cpu",)
        for device in devices:
            try:
                with set_default_torch_dtype(model_config.dtype), torch.device(device):
                    model = initialize_model(vllm_config=config, model_config=model_config)
                break
            except Exception as error:
                if device == devices[-1]:
                    raise
                # A module that computes something while it is made needs a real device.
                self.found["not_on_meta"] = f"{type(error).__name__}: {error}"
                config.compilation_config.static_forward_context.clear()
        kind = type(model)
        self.found |= {
            "device": device,
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "file": str(Path(sys.modules[kind.__module__].__file__).resolve()),
            "parameters": described(model.named_parameters()),
            "buffers": described(model.named_buffers()),
        }
        return model


def served(config: Any) -> Any:
    """Give the configuration of the model that the case is about: the draft's, where there is one."""
    speculative = config.speculative_config
    return config.model_config if speculative is None else speculative.draft_model_config


def described(tensors: Any) -> dict[str, Any]:
    """Give shapes and types by name."""
    return {name: [list(one.shape), str(one.dtype)] for name, one in tensors}


def settings(config: Any) -> dict[str, Any]:
    """Give what the engine configuration came to, where a graft can get it silently wrong."""
    cache, model = config.cache_config, config.model_config
    return {
        "architecture": model.architecture,
        "hybrid": model.is_hybrid,
        "multimodal": model.is_multimodal_model,
        "runner": str(getattr(model, "runner_type", None)),
        "mamba_cache_dtype": str(getattr(cache, "mamba_cache_dtype", None)),
        "mamba_ssm_cache_dtype": str(getattr(cache, "mamba_ssm_cache_dtype", None)),
        "block_size": cache.block_size,
        "attention_ops": list(getattr(type(config.compilation_config), "_attention_ops", ())),
    }


def process_groups(config: Any) -> None:
    """Set up the process groups of a world of one, over a file, so that no port is needed."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state

    parallel_state.destroy_model_parallel()
    with set_current_vllm_config(config):
        if not torch.distributed.is_initialized():
            meeting = Path(tempfile.mkdtemp()) / "rendezvous"
            parallel_state.init_distributed_environment(1, 0, f"file://{meeting}", 0, "gloo")
        parallel_state.ensure_model_parallel_initialized(1, 1)


def last_of_the_tree(error: BaseException) -> str | None:
    """Give the innermost place in vLLM's own files that an error passed through."""
    import vllm

    root = Path(vllm.__file__).resolve().parent
    places = [
        f"{Path(frame.filename).resolve().relative_to(root.parent)}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if root in Path(frame.filename).resolve().parents
    ]
    return places[-1] if places else None
