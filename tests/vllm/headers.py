# Checkpoints of which only the headers are real: the file has the length that it says, and nothing is written into it. So a
# defect is planted by changing a name, a shape or a type.
"""Write checkpoints that say what they hold and hold nothing."""

import json
import math
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WIDTHS = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I32": 4}

Listed = dict[str, tuple[list[int], str]]
"""Name → shape, type."""


def listed_in(folder: Path) -> Listed:
    """Read what the files of a model say that they hold."""
    found: Listed = {}
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            told = json.loads(stream.read(size))
        found |= {n: (e["shape"], e["dtype"]) for n, e in told.items() if n != "__metadata__"}
    return found


def write(out: Path, source: Path, listed: Listed, config: Mapping[str, Any] | None = None) -> Path:
    """Write a model's folder: the small files of another one, and these tensors."""
    out.mkdir(parents=True)
    for file in source.glob("*"):
        if file.suffix in {".json", ".jinja"} and not file.name.endswith("index.json"):
            shutil.copy2(file, out)
    if config is not None:
        (out / "config.json").write_text(json.dumps(config))
    header: dict[str, Any] = {}
    end = 0
    for name, (shape, dtype) in listed.items():
        start, end = end, end + math.prod(shape) * WIDTHS[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    told = json.dumps(header).encode()
    with (out / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", len(told)) + told)
        stream.truncate(8 + len(told) + end)
    return out


def in_eight_bits(listed: Listed, named: tuple[str, ...]) -> Listed:
    """Quantise some of the tensors in blocks of 128, as Qwen's FP8 releases are: a scale beside each."""
    found: Listed = {}
    for name, (shape, dtype) in listed.items():
        if not name.endswith(named):
            found[name] = (shape, dtype)
            continue
        found[name] = (shape, "F8_E4M3")
        found[f"{name}_scale_inv"] = ([-(-one // 128) for one in shape], "BF16")
    return found
