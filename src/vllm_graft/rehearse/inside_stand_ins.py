# Runs inside an install (see inside.py): what stands in for parts that this machine's platform refuses, so that a
# class can be constructed and its weights loaded all the same. None of them computes anything; each that was used
# is named in the answer. Only on request: without them, what a platform refuses is refused.
"""Attention backends and streams that a CPU has not."""

import importlib
import importlib.abc
import importlib.machinery
import linecache
import os
import re
import sys
import types
from typing import Any, ClassVar

LIBRARIES = ("torchaudio", "kaldi_native_fbank", "tilelang", "timm")
"""Libraries of processors and of CUDA kernels: model files import them, classes are made without them. None that
others ask for before they use it: they would find it."""

used: list[str] = []
"""The stand-ins that this case has used."""


def use(what: str) -> None:
    """Note that a stand-in was used."""
    if what not in used:
        used.append(what)


class Tolerant(type):
    """A class that answers no to every question that it does not know."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_given, **_named: False


class Implementation:
    """Stands in for the implementation of an attention backend."""

    dcp_world_size = 1
    is_sparse = False

    def __init__(self, *_given: Any, **named: Any) -> None:
        """Take whatever the layer hands over."""
        self.kept = named

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Backend(metaclass=Tolerant):
    """Stands in for an attention backend that this platform does not have."""

    accept_output_buffer = True

    @staticmethod
    def get_name() -> str:
        """Give a name that vLLM's list of backends has."""
        return "CPU_ATTN"

    @staticmethod
    def get_impl_cls() -> Any:
        """Give the implementation's class."""
        return Implementation

    @staticmethod
    def supports_alibi_sqrt() -> bool:
        """Tell that it takes these slopes."""
        return True

    @staticmethod
    def is_mla() -> bool:
        """Tell that it takes latent attention."""
        return True

    @staticmethod
    def get_supported_kernel_block_sizes(*_given: Any) -> list[int]:
        """Give a block size."""
        return [16]


class Thing:
    """Anything of a library that is not here: can be called, subclassed and used as a decorator."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Take anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing()

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Give a decorated function back as it is."""
        return given[0] if len(given) == 1 and not named and callable(given[0]) else Thing()

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return ()


class Absent(types.ModuleType):
    """Stands in for a library that is not installed."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        use(f"module {self.__name__}")
        return Thing()


class Absentees(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds libraries that are not installed; comes after all that find installed ones."""

    def find_spec(self, name: str, _path: Any, _target: Any = None) -> Any:
        """Find a module of one of the libraries."""
        if name.partition(".")[0] not in LIBRARIES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        """Make it."""
        return Absent(spec.name)

    def exec_module(self, module: Any) -> None:
        """Nothing runs."""


def install() -> None:
    """Put the stand-ins where the platform refuses.

    Source: vllm 0.17.1 and 0.30.0, platforms/cpu.py (``get_attn_backend_cls``) and layers/fused_moe (experts without
    a gate), models/kimi_k3 (a CUDA stream).
    """
    import torch
    from vllm.platforms import current_platform

    sys.meta_path.append(Absentees())
    flash_attention()
    flash_utilities()
    kernels()
    experts()
    platform = type(current_platform)
    original = platform.get_attn_backend_cls

    def chosen(*given: Any, **named: Any) -> Any:
        try:
            return original(*given, **named)
        except (NotImplementedError, ValueError) as error:
            use(f"attention backend: {error}")
            return f"{Backend.__module__}.{Backend.__qualname__}"

    platform.get_attn_backend_cls = staticmethod(chosen)
    refused = platform.is_cuda_alike

    def alike(self: Any) -> bool:
        # Experts without a gate are refused but for CUDA; nothing else of the layer is to think that this is CUDA.
        caller = sys._getframe(1)
        at, file = caller.f_lineno, caller.f_code.co_filename
        near = "".join(linecache.getline(file, line) for line in range(at - 2, at + 2))
        if "fused_moe" in file and "is_act_and_mul" in near:
            use("experts without a gate")
            return True
        return refused(self)

    platform.is_cuda_alike = alike
    for name in ("Stream", "Event"):
        if not torch.cuda.is_available():
            setattr(torch.cuda, name, type(name, (OfCuda,), {}))
    operators()


class OfCuda:
    """Stands in for a stream or an event. A class, since annotations say that something may be one."""

    def __init__(self, *_given: Any, **_named: Any) -> None:
        """Take anything."""
        use(f"torch.cuda.{type(self).__name__}")


def operators() -> None:
    """Let layers take hold of native operators that this build has not; calling one is an error.

    Whoever asks whether there is one (``hasattr``) is told the truth.
    Source: vllm 0.20.2, layers/activation.py takes ``torch.ops._C.gelu_and_mul`` while it is made, and that
    release's extensions do not load beside torch 2.13.
    """
    from torch._ops import _OpNamespace

    original = _OpNamespace.__getattr__

    def found(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            caller = sys._getframe(1)
            line = linecache.getline(caller.f_code.co_filename, caller.f_lineno)
            inside = f"{os.sep}vllm{os.sep}" in caller.f_code.co_filename
            if name.startswith("__") or not inside or "hasattr" in line or "getattr" in line:
                raise
            use(f"native operator {self.name}.{name}")
            return absent_operator(f"{self.name}.{name}")

    _OpNamespace.__getattr__ = found


def absent_operator(name: str) -> Any:
    """Make an operator that cannot be called."""

    def operator(*_given: Any, **_named: Any) -> Any:
        message = f"the native operator {name} is not in this build"
        raise NotImplementedError(message)

    return operator


def flash_attention() -> None:
    """Let model files import what vLLM has for CUDA only."""
    name = "vllm.vllm_flash_attn"
    try:
        importlib.import_module(name)
    except ImportError:
        for inner in ("", ".flash_attn_interface", ".layers", ".layers.rotary"):
            sys.modules[name + inner] = Absent(name + inner)


def other_runner(error: BaseException) -> bool:
    """Let a model be made that one of vLLM's model runners refuses; tell whether that is new.

    No runner is started here.
    Source: vllm 0.30.0, config/vllm.py: "Model Runner V1 does not support", "Model Runner V2 requires Triton".
    """
    from vllm.config import VllmConfig

    refused = re.search(
        r"Model Runner V\d (does not support|requires)|the V2 model runner", str(error)
    )
    if refused is None or "model runner" in used:
        return False
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    for version in ("v1", "v2"):
        name = f"_validate_{version}_model_runner"
        if hasattr(VllmConfig, name):
            setattr(VllmConfig, name, lambda _self: None)
    use("model runner")
    return True


REFUSED_BACKEND = re.compile(
    r"not supported by backend CPU_ATTN|does not support AttentionBackendEnum\.TORCH_SDPA"
)


def other_backend(error: BaseException) -> bool:
    """Let a model be made that refuses the attention backends of this platform; tell whether that is new.

    Source: vllm 0.17.1, step1.py ("use_alibi_sqrt is not supported by backend CPU_ATTN") and openpangu_vl.py
    ("does not support AttentionBackendEnum.TORCH_SDPA backend now").
    """
    from vllm.platforms import current_platform

    what = "attention backend: the platform's own is refused"
    if REFUSED_BACKEND.search(str(error)) is None or what in used:
        return False
    use(what)
    platform = type(current_platform)
    name = f"{Backend.__module__}.{Backend.__qualname__}"
    platform.get_attn_backend_cls = staticmethod(lambda *_given, **_named: name)
    enumeration = importlib.import_module("vllm.v1.attention.backends.registry")
    flash = enumeration.AttentionBackendEnum.FLASH_ATTN
    platform.get_vit_attn_backend = staticmethod(lambda *_given, **_named: flash)
    # What was chosen before is kept by both of these.
    for module, choice in (
        ("vllm.v1.attention.selector", "_cached_get_attn_backend"),
        ("vllm.model_executor.models.vision", "_get_vit_attn_backend"),
    ):
        kept = getattr(importlib.import_module(module), choice, None)
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()
    return True


def flash_utilities() -> None:
    """Let files import functions that vLLM defines where it has flash attention only.

    Source: vllm 0.25.1, 0.27.1 and 0.30.0, v1/attention/backends/mla/prefill/flash_attn.py.
    """
    try:
        utilities = importlib.import_module("vllm.v1.attention.backends.fa_utils")
    except ImportError:
        return

    def absent(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        use(f"flash attention: {name}")
        return Thing()

    utilities.__dict__.setdefault("__getattr__", absent)
    # Refuses to be made where it has no kernel; which latent attention comes to it differs between releases.
    try:
        prefill = importlib.import_module("vllm.v1.attention.backends.mla.prefill.flash_attn")
    except ImportError:
        return
    if getattr(prefill, "flash_attn_varlen_func", 0) is None:
        prefill.flash_attn_varlen_func = absent_operator("flash_attn_varlen_func")


def kernels() -> None:
    """Let files of kernels be imported: what vLLM puts in the place of Triton is made a little more patient.

    Source: vllm 0.20.2, triton_utils/allocation.py sets an allocator, layers/mhc.py decorates with tilelang.
    """
    from vllm.triton_utils import importing
    from vllm.utils import import_utils

    def allocator(*_given: Any) -> None:
        use("triton")

    importing.TritonPlaceholder.set_allocator = staticmethod(allocator)
    if hasattr(import_utils, "has_tilelang"):
        import_utils.has_tilelang = lambda: True


def experts() -> None:
    """Let mixtures of experts be made whose kernel this platform does not have.

    Source: vllm 0.27.1 to 0.31.0, fused_moe/oracle/unquantized.py: "No Unquantized MoE backend supports the
    deployment configuration".
    """
    package = "vllm.model_executor.layers.fused_moe"
    try:
        oracle = importlib.import_module(f"{package}.oracle.unquantized")
        original = oracle.select_unquantized_moe_backend
    except (ImportError, AttributeError):
        return

    def chosen(*given: Any, **named: Any) -> Any:
        try:
            return original(*given, **named)
        except (NotImplementedError, ValueError) as error:
            use(f"kernel for experts: {error}")
            return oracle.UnquantizedMoeBackend.CPU, None

    for module in list(sys.modules.values()):
        if getattr(module, "select_unquantized_moe_backend", None) is original:
            module.select_unquantized_moe_backend = chosen
