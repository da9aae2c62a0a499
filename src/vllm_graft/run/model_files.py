# What a model's folder says of itself, without its weights: a few files at its top, links of the Hugging Face cache resolved.
"""Reading the small files of a model's folder."""

from pathlib import Path

from vllm_graft.errors import SourceError

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt")
_LARGEST = 1 << 26
"""Bytes; a tokenizer.json of a million tokens has a third of that."""


def read_description(folder: str) -> dict[str, bytes]:
    """Read the files at the top of a folder that are no weights, by name.

    Raises:
        SourceError: E345, one of them may not be read.
    """
    found: dict[str, bytes] = {}
    for path in sorted(Path(folder).iterdir()):
        if not path.is_file() or path.name.endswith(_WEIGHTS) or path.name.startswith("."):
            continue
        try:
            if path.stat().st_size <= _LARGEST:
                found[path.name] = path.read_bytes()
        except OSError as failure:
            raise SourceError(
                f"{path} cannot be read: {failure.strerror}",
                remedy="Run as its owner, or copy the model's small files to a place of yours.",
                code="E345",
            ) from failure
    return found
