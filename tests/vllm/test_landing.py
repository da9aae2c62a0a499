# What is seen of a loader's writes, without a loader: real torch, tensors without memory.
import json
from pathlib import Path

import environments

SOURCE = Path(__file__).parents[2] / "src/vllm_graft/rehearse"
SCRIPT = Path(__file__).parent / "inside_landings.py"


def test_every_way_into_a_parameter_is_seen_with_what_it_covers() -> None:
    python = environments.runtime().python
    told = json.loads(environments.run([python, "-P", SCRIPT, SOURCE], timeout=120))
    assert told["uncovered"] == {
        "fused": 4 * 8,
        "experts": 3 * 8,
        "one number": 0,
        "in memory": 0,
        "interleaved": 0,
        "half interleaved": 4 * 4,
        "flat": 0,
        "padded": 0,
        "untouched": 2,
    }
    assert told["landed"]["turned"] == ["fused"]
    assert told["landed"]["converted.3"] == ["experts"]
    assert told["landed"]["scale"] == ["one number"]
    assert told["landed"]["to memory"] == ["in memory"]
    assert "given and not used" not in told["landed"]
    assert told["read"]["cut.0"] == [0, 3 * 8], "the lower half of it was left"
    assert told["read"]["turned"] == [0, 4 * 8]
    assert told["spread"] == {"a row for three": "[1, 2] over [3, 2]"}
    assert told["computed"] == ["computed with"]
