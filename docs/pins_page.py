# Makes docs/pins.md: what P3 does, and the matrix that bench/configs.py kept.
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vllm_graft.deps.releases import render_versions

FILE = Path(__file__).parent.parent / "bench/configs.json"
HEAD = """\
# Pins and config classes (P3)

`plan` judges what grafted code needs of other distributions without running or fetching anything (but for `--ask-base`, below). Nothing is upgraded by default.

**The environment** is modelled from METADATA alone: who is installed, and who asks for what, markers judged by the interpreter and platform of the install
(never by those of the machine that plans), extras by who asks for them. Pins that the base violates as it is are the control: they are told as notes (G401), and a
change that leaves them broken breaks nothing.

**What is needed** is read from the grafted modules: names that they or their functions import from transformers, calls with so many arguments, methods that
config classes call on the parent of all config classes, lists that they hand to it where it joins a set. With `--model`, also what the model's files ask for: its
model type, the entries of `layer_types` where they are checked, its tokenizer and processor classes, unless vLLM has them or the folder brings them as code. Without, the model types of transformers' own class of
that architecture. What the donor guards by `try` or by a condition on a version is no need.

**What there is** is told by, in this order: the text of the base's own transformers, where the source is a folder; the table of published releases that is
shipped (`data/transformers.toml`, made from the wheels by `python bench/transformers_table.py`), for the version that is installed; its two neighbours in that table,
where they agree, for a candidate or development version; and for a wheel, which has no transformers, every release that its pins allow. Where nobody tells, the
linker's doubt stays (G402) with the line to run in the base.

**A wheel has no environment**, so that of most needs a plan can say no more than for which part of the range that its pins allow they hold. `plan --with transformers==5.16.1` says
which one the base will be run with: P3 then decides for that one, and says in the plan by whose word (`rungs`, and *found* of the dependency). A folder or an image has its own, and that counts:
another one is refused (E203), and so is a release of which nothing is known. What is said is not checked later: the plan holds for a base that has it.

| finding | says |
| --- | --- |
| G403 | a name is in none of them |
| G405 | the names are there, but a call, a method or a kind of argument is not |
| G408 | with `--ask-base`: the base's own interpreter says otherwise than what was read |
| G406 | the model's files name a class, model type or layer type that is not there |
| G404 | of the releases that a wheel's pins allow, some will do and some will not: which. A note where the donor allows the same older releases and fails in them itself; else to review, since an image holds the release that was the newest when it was built |

**The decision** stands under *Dependencies*, with the chain of who asks for what:

| decision | when |
| --- | --- |
| keep | all is there, or nothing tells otherwise |
| upgrade | the nearest release that has everything breaks no pin of the base that holds now |
| side by side | it would break one. A copy in a folder of its own, in front on `PYTHONPATH` of the process that serves this model, leaves all else as it is |
| add | it comes with what was accepted, and the base has none |
| missing | no published release has it; the plan is blocked |

A proposal is carried out by `plan --accept` and `build`: [wheels.md](wheels.md). Then the plan is judged again for what will be there, and says of each distribution which wheel it is.

## Asking the base

    vllm-graft plan --base docker:vllm-node --donor docker:vllm-new --model ./Qwen3.5-27B --ask-base -o plan.json

What was read is put to the image's own interpreter: one container, whose entrypoint and health check do not run ([images.md](images.md)). It imports each name that grafted code
needs of transformers, takes the parameters of plain functions, looks into `AutoConfig`, the parent of all config classes and the list of layer types, and finds the tokenizer and processor classes. Where it is transformers
that reads the model's config.json, the class of its model type does (P3 config is then `passed` or `failed`); code that a model brings is not there. vLLM and the donor's code are not imported, so that the donor's own config classes
are still only read, and so is what a class or a decorated function takes as arguments.

| read | the interpreter | then |
| --- | --- | --- |
| there | there | the reason of the decision and rung P3 say what was run, and how many of how many |
| there | not there | its word counts: the decision is made by it, and G408 says so |
| not there | there | its word counts: nothing is proposed for it, and the reason says so |
| either | importing or loading it ends in an error | nothing is proposed for it, since another distribution may be what is lacking (G408 has the error); the verdict is at least `review` |

The base must be `docker:IMAGE` of this machine's engine and for the architecture that this runs on, and is asked as it is: `--accept` and `--with` do not go with it, and a grafted image is not asked (E205). Without an answer there is no plan (E336).
The answers hold without network and without a GPU.

That a class was read is not that it loads: without `--ask-base`, `P3 config` stays `not run` until an interpreter with the base's transformers reads the model's config.json.
`make test-vllm` does that for the matrix below (nine releases, two donors), and P3 must say what happens there.

## Qwen3.5: which transformers loads which donor's config classes

Generated from `bench/configs.json`, which `python bench/configs.py` writes; it compares with what was measured by loading the classes.
"""


def pins_page() -> str:
    kept: Mapping[str, Any] = json.loads(FILE.read_text())
    known = render_versions(kept["autoconfig"], kept["versions"])
    return "\n".join(
        [
            HEAD,
            "| donor | read | asks for | loads under | does not |",
            "| --- | --- | --- | --- | --- |",
            *_rows(kept),
            f"\n`AutoConfig` knows `qwen3_5_moe` in {known}. With the config classes grafted it need not.",
            "The last row has no config classes of its own: its model file imports those of transformers.\n",
        ]
    )


def _rows(kept: Mapping[str, Any]) -> Iterator[str]:
    for row in kept["rows"]:
        told = {word: render_versions(r, kept["versions"]) for word, r in row["releases"].items()}
        holds = told.pop("ok", "none")
        fails = "; ".join(f"{releases}: {word}" for word, releases in told.items())
        what = "config classes" if len(row["files"]) > 1 else "model file"
        pin = str(row["pin"]).replace("|", "\\|")
        yield f"| {row['donor']} | {what} | {pin} | {holds} | {fails} |"
