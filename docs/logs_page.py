# The page about logs: its head is written by hand, the table of known lines comes from data/signatures.toml.
from pathlib import Path

from vllm_graft.workflows.explain_log import read_signatures

MARK = "<!-- generated from here on by `make docs`: src/vllm_graft/data/signatures.toml -->"


def logs_page() -> str:
    head = (Path(__file__).parent / "logs.md").read_text().partition(MARK)[0]
    parts = [head.rstrip() + "\n", MARK + "\n"]
    for kind, title in (
        ("cause", "Causes"),
        ("consequence", "Consequences"),
        ("notice", "Worth a look"),
    ):
        parts += [
            f"## {title}\n",
            "| name | stands in the line | what it means |",
            "| --- | --- | --- |",
        ]
        for each in read_signatures():
            if each.kind == kind:
                words = " or ".join(f"`{word}`" for word in each.words)
                parts.append(
                    f"| `{each.name}` | {_cell(words)} | {_cell(each.cause)} {_cell(each.remedy)} |"
                )
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
