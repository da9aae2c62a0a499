# Writes src/vllm_graft/data/transformers.toml: what each published transformers has of what vLLM may need. It is read out of
# the wheels by the very code that reads an installed transformers (deps/transformers_facts.py). Fetch the wheels with
# pip download --no-deps; run this when vLLM has a release that imports new names, or transformers a new release.
#
#     python bench/transformers_table.py FOLDER-OF-TRANSFORMERS-WHEELS FOLDER-OF-VLLM-WHEELS
"""Make the table of published releases of transformers from their wheels."""

import argparse
import ast
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.version import Version
from wheel_text import WheelText

from vllm_graft.deps.releases import render_interval
from vllm_graft.deps.transformers_facts import ReadTransformers

TABLE = Path(__file__).parents[1] / "src/vllm_graft/data/transformers.toml"
OLDEST = Version("4.56.0")
"""What vLLM 0.11 to 0.22 ask for at least."""
CLASS = re.compile(r"^[A-Z]\w*(Tokenizer|Processor|FeatureExtractor|Backend|ProcessorPil)(Fast)?$")
OTHERS = ("compressed_tensors", "tokenizers")
SECTIONS = (
    "requires",
    "names",
    "untold",
    "model-types",
    "classes",
    "architectures",
    "config-members",
    "set-arguments",
    "layer-types",
    "signatures",
)
HEAD = """# What each published transformers has of what vLLM may need: made by bench/transformers_table.py from the wheels, never
# by hand. In each section: in which releases → what. "all" is all of `releases`; "5.2.0-" from there on; "-" to the end.
"""


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """Module and name of everything that releases of vLLM import from transformers."""
    for wheel in sorted(folder.glob("vllm*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for path in archive.namelist():
                if path.startswith("vllm/") and path.endswith(".py"):
                    source = archive.read(path)
                    if b"transformers" in source:
                        yield from imports(ast.parse(source))


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module.partition(".")[0] == "transformers":
                yield from ((node.module, alias.name) for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "transformers":
                    yield alias.name, ""


def facts(read: ReadTransformers, asked: Iterable[tuple[str, str]]) -> Mapping[str, set[str]]:
    """Everything that is kept of one release: section → keys."""
    found: dict[str, set[str]] = {section: set() for section in SECTIONS}
    found["requires"] = {line for line in read.requires if "extra ==" not in line}
    for module, name in asked:
        match read.binds(module, name):
            case True:
                found["names"].add(f"{module}:{name}")
            case None:
                found["untold"].add(f"{module}:{name}")
            case False:
                pass
        if (parameters := read.signature(module, name)) is not None:
            found["signatures"].add(f"{module}:{name}({parameters})")
    assert read.names is not None, read.version
    found["model-types"] = {f"{key}:{name}" for key, name in read.names.configs.items()}
    found["classes"] = {word for word in read.names.words if CLASS.fullmatch(word)}
    found["architectures"] = {f"{key}:{name}" for key, name in read.architectures.items()}
    found["config-members"] = {name for name in read.config_members if not name.startswith("__")}
    found["set-arguments"] = set(read.set_arguments)
    found["layer-types"] = set(read.layer_types)
    return found


def table(every: Mapping[str, Mapping[str, set[str]]], others: Mapping[str, Sequence[str]]) -> str:
    releases = list(every)
    lines = [HEAD, *_listed("releases", releases)]

    for section in SECTIONS:
        grouped: dict[str, list[str]] = defaultdict(list)
        for key in sorted({key for kept in every.values() for key in kept[section]}):
            held = [key in kept[section] for kept in every.values()]
            grouped[render_interval(held, releases)].append(key)
        lines.append(f"\n[{section}]")
        for interval in sorted(grouped, key=lambda each: (each != "all", each)):
            lines += _listed(f'"{interval}"', grouped[interval])
    lines.append("\n[others]")
    for key, requires in others.items():
        lines += _listed(f'"{key}"', requires)
    return "\n".join(lines) + "\n"


def _listed(key: str, items: Iterable[str]) -> Iterator[str]:
    yield f"{key} = ["
    row = ""
    for item in items:
        shown = f'"{item}"' if '"' not in item else f"'{item}'"
        if row and len(row) + len(shown) > 120:
            yield f"  {row.rstrip()}"
            row = ""
        row += f"{shown}, "
    if row:
        yield f"  {row.rstrip()}"
    yield "]"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transformers", type=Path, help="folder with wheels of transformers")
    parser.add_argument("vllm", type=Path, help="folder with wheels of vLLM")
    asked = parser.parse_args(argv)
    pairs = sorted(set(imported(asked.vllm)))
    wheels = {
        Version(path.name.split("-")[1]): path
        for path in asked.transformers.glob("transformers-*.whl")
    }
    every: dict[str, Mapping[str, set[str]]] = {}
    for version in sorted(wheels):
        if version < OLDEST or version.is_prerelease:
            continue
        text = WheelText(wheels[version])
        read = ReadTransformers(
            text=text, version=str(version), requires=text.distribution.requires
        )
        every[str(version)] = facts(read, pairs)
        print(version, {key: len(kept) for key, kept in every[str(version)].items()}, flush=True)
    others: dict[str, Sequence[str]] = {}
    for name in OTHERS:
        for path in sorted(asked.transformers.glob(f"{name}-*.whl")):
            found = WheelText(path).distribution
            others[f"{found.name}=={found.version}"] = [
                line for line in found.requires if "extra ==" not in line
            ]
    TABLE.write_text(table(every, others))
    return 0


if __name__ == "__main__":
    sys.exit(main())
