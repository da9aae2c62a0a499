# Runs in the runtime environment, with torch and without vLLM: tensors without memory are put into parameters in the ways that
# loaders have, and what the ledger says of it is printed.
"""Put tensors into parameters.

usage: python -P inside_landings.py FOLDER, which holds inside_landing.py
"""

import json
import sys
from typing import Any

sys.path.insert(0, sys.argv[1])

import torch
from inside_landing import Ledger, uncovered, watching

ledger = Ledger()
parameters: dict[str, Any] = {}


def parameter(name: str, *shape: int, device: str = "meta") -> Any:
    made = torch.nn.Parameter(torch.empty(shape, device=device), requires_grad=False)
    parameters[name] = made
    ledger.watch(name, made)
    return made


def given(name: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    made = torch.empty(shape, dtype=dtype, device="meta")
    ledger.give(name, made)
    return made


fused = parameter("fused", 12, 8)
experts = parameter("experts", 4, 6, 8)
one = parameter("one number", 1)
real = parameter("in memory", 4, device="cpu")
interleaved = parameter("interleaved", 8, 4)
half = parameter("half interleaved", 8, 4)
flat = parameter("flat", 3, 4)
padded = parameter("padded", 10, 2)
untouched = parameter("untouched", 2)

with torch.no_grad(), watching(ledger):
    fused.data.narrow(0, 0, 4).copy_(given("part", 4, 8))
    fused.data[4:8] = given("turned", 8, 4).t().contiguous()
    for number in range(4):
        rows = given(f"cut.{number}", 6, 8).narrow(0, 0, 3)
        experts.data[number][:3].copy_(rows)
        if number != 2:
            experts.data[number].narrow(0, 3, 3).copy_(given(f"converted.{number}", 3, 8).half())
    one.data.fill_(given("scale", 1).item())
    real.data.copy_(given("to memory", 4))
    interleaved.data[::2].copy_(given("even", 4, 4))
    interleaved.data[1::2].copy_(given("odd", 4, 4))
    half.data[::2].copy_(given("even alone", 4, 4))
    flat.data.view(-1).copy_(given("in one row", 12))
    padded.data[:7].copy_(given("words", 7, 2))
    padded.data[7:].fill_(0)
    padded.data[:3].copy_(given("a row for three", 1, 2))
    computed = given("computed with", 2, dtype=torch.int8).float() * 2
    real.data[:2].copy_(computed)
    given("given and not used", 3)

json.dump(
    {
        "landed": {name: sorted(places) for name, places in sorted(ledger.landed.items())},
        "read": ledger.read,
        "spread": ledger.spread,
        "computed": sorted(ledger.computed),
        "uncovered": {
            name: uncovered(each, ledger.written.get(name, set()))
            for name, each in parameters.items()
        },
    },
    sys.stdout,
)
