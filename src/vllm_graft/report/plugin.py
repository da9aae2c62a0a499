"""The result of ``build --to plugin:DIR`` on stdout."""

import json
from dataclasses import asdict

from vllm_graft.report.form import Form
from vllm_graft.values.plugin import PLUGIN_SCHEMA, PluginReceipt

_HEADLINES = {"written": "written:", "not written": "would be built:"}


def render_plugin(receipt: PluginReceipt, form: Form) -> str:
    """Say what was built, or would be."""
    if form == "json":
        value = asdict(receipt) | {"schema": PLUGIN_SCHEMA, "wheel": str(receipt.wheel)}
        return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    code = "`" if form == "markdown" else ""
    rows = [
        ("for", f"vLLM {receipt.vllm}, and no other version"),
        ("registers", ", ".join(receipt.registers)),
        ("wheel", f"{receipt.wheel}, {receipt.size:,} bytes"),
        *([("requires", ", ".join(receipt.requires))] if receipt.requires else []),
    ]
    lines = [f"{_HEADLINES[receipt.outcome]} {code}{receipt.target}{code}"]
    if code:
        lines += ["", "| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)]
    else:
        lines += [f"  {name:9}  {text}" for name, text in rows]
    if receipt.outcome == "written":
        lines += [f"Install it beside that vLLM with: pip install --no-deps {receipt.target}"]
    return "\n".join(lines) + "\n"
