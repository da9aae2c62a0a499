# Runs inside an install (see inside_gates.py): what each gate looks at. A check gives the faults it found, each as what was
# wanted and what was found, and the facts worth telling; what raises is a fault too. Names of vLLM are those of 0.14 to 0.31.
"""The checks of rung P4."""

import hashlib
import importlib
import importlib.util
import json
import marshal
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE = "Hello, wide world: 12 °C, 안녕하세요, naïve."
"""Holds what tokenizers have silently lost: spaces and letters outside of ASCII."""


@dataclass(frozen=True)
class Asked:
    """What is asked, and where its files are."""

    request: dict[str, Any]
    home: Path

    def folder(self, *, control: bool) -> str:
        return str(self.home / ("control" if control else "model"))

    @property
    def root(self) -> Path:
        """Give the folder that holds the vLLM that Python imports."""
        spec = importlib.util.find_spec("vllm")
        if spec is None or not spec.origin:
            message = "Python finds no vllm"
            raise LookupError(message)
        return Path(spec.origin).resolve().parents[1]

    def modules(self, below: str = "vllm/") -> list[str]:
        """Give the dotted names of the grafted modules in a folder."""
        paths = [path for path in self.request["added"] if path.startswith(below)]
        return [
            path.removesuffix(".py").replace("/", ".") for path in paths if path.endswith(".py")
        ]


def found(faults: list[tuple[str, str]], **facts: Any) -> dict[str, Any]:
    return {"faults": faults, "facts": facts}


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def files(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that what was grafted is there, and is what Python runs."""
    root = asked.root
    if control:
        text = (root / "vllm/__init__.py").read_bytes()
        return found([] if text else [("a vLLM that can be read", "an empty file")])
    faults = []
    wanted = asked.request["root"]
    if wanted and str(root) != wanted:
        faults.append((f"Python to import vLLM from {wanted}", f"it imports it from {root}"))
    for path, digest in asked.request["files"].items():
        file = root / path
        if not file.is_file():
            faults.append((f"{path} as grafted", "no such file"))
            continue
        content = file.read_bytes()
        seen = hashlib.sha256(content).hexdigest()
        if seen != digest:
            is_base = seen == asked.request["before"].get(path)
            what = "the base's own text: this edit did not land" if is_base else "another text"
            faults.append((f"{path} as grafted (sha256 {digest[:12]})", f"{what} ({seen[:12]})"))
        elif path.endswith(".py") and (why := stale(file, content)):
            faults.append((f"Python to run {path} as it stands there", why))
    return found(faults, checked=len(asked.request["files"]))


def stale(file: Path, content: bytes) -> str:
    """Say which bytecode Python would take in place of this text; empty where it is this text's.

    Source: PEP 552: flags 1 is by hash and never checked, 3 by hash and checked, 0 by time and size.
    """
    compiled = Path(importlib.util.cache_from_source(str(file)))
    if not compiled.is_file():
        return ""
    data = compiled.read_bytes()
    if data[:4] != importlib.util.MAGIC_NUMBER:
        return ""
    flags = int.from_bytes(data[4:8], "little")
    facts = file.stat()
    by_time = int.from_bytes(data[8:12], "little") == int(facts.st_mtime) & 0xFFFFFFFF
    by_size = int.from_bytes(data[12:16], "little") == facts.st_size & 0xFFFFFFFF
    is_taken = flags == 1 or (flags == 0 and by_time and by_size)
    if not is_taken:
        return ""
    code = compile(content, str(file), "exec", dont_inherit=True)
    if marshal.loads(data[16:]) == code:  # noqa: S302 (what Python itself would run)
        return ""
    return f"it runs {compiled.name}, compiled from another text"


# ── import, registry ──────────────────────────────────────────────────────────────────────────────


def imports(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Import each grafted module, or where none is known those of the architectures."""
    if control:
        importlib.import_module(entry_module(entry(asked.request["control_architecture"])))
        return found([])
    names = asked.modules() or [
        entry_module(each)
        for name in asked.request["architectures"]
        if (each := entry(name)) is not None
    ]
    faults = []
    for name in dict.fromkeys(names):
        try:
            importlib.import_module(name)
        except BaseException as error:
            import traceback

            traceback.print_exc()
            faults.append((f"{name} to be imported", f"{type(error).__name__}: {error}"))
    return found(faults, modules=len(names))


def registry(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Let vLLM's registry inspect each class in a process of its own, as its engine does."""
    names = [asked.request["control_architecture"]] if control else asked.request["architectures"]
    faults, told = [], {}
    for name in names:
        known = entry(name)
        if known is None:
            faults.append((f"{name} in the registry", "not registered"))
            continue
        try:
            said = known.inspect_model_cls()
        except BaseException as error:
            import traceback

            traceback.print_exc()
            faults.append((f"{name} to pass the registry's inspection", cause(error)))
            continue
        told[name] = sorted(key for key, value in vars(said).items() if value is True)
    return found(faults, inspected=told)


def entry(name: str) -> Any:
    from vllm.model_executor.models.registry import ModelRegistry

    return ModelRegistry.models.get(name)


def entry_module(known: Any) -> str:
    return str(getattr(known, "module_name", "") or known.model_cls.__module__)


def cause(error: BaseException) -> str:
    """Say what went wrong in a child: the last exception of its traceback, else the error itself."""
    lines = [
        line for line in str(error).splitlines() if re.match(r"^[\w.]+(Error|Exception): ", line)
    ]
    return lines[-1] if lines else f"{type(error).__name__}: {error}"[:2000]


# ── configuration ─────────────────────────────────────────────────────────────────────────────────


def flexible_parser() -> Any:
    """Make an empty parser as vLLM has it, which raises what it does not take."""
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    parser = FlexibleArgumentParser(prog="vllm serve")
    parser.error = refuse
    return parser


def serve_parser() -> Any:
    """Make the parser that ``vllm serve`` has in this install; gives its module too."""
    for name in ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.launchers.cli_args"):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if name.startswith(str(error.name)):
                continue
            raise
        return module.make_arg_parser(flexible_parser()), module
    message = "this vLLM has no parser of `vllm serve` where 0.14 to 0.31 have it"
    raise LookupError(message)


def refuse(message: str) -> Any:
    """Stand for ``ArgumentParser.error``, which would end the process."""
    raise ValueError(message)


def planned(asked: Asked, *, control: bool, **more: Any) -> Any:
    """Give the engine's arguments: the planned ones that are the engine's, on one rank."""
    from vllm.engine.arg_utils import EngineArgs

    folder = asked.folder(control=control)
    words = [] if control else list(asked.request["serve"])
    parser = EngineArgs.add_cli_args(flexible_parser())
    try:
        told = parser.parse_args(["--model", folder, *words])
    except ValueError as error:  # the server's own words, and what the gate `flags` is about
        _, found, listed = str(error).partition("unrecognized arguments: ")
        words = without(words, listed.split()) if found else []
        told = parser.parse_args(["--model", folder, *words])
    arguments = EngineArgs.from_cli_args(told)
    arguments.model, arguments.tokenizer = folder, None
    arguments.trust_remote_code = bool(asked.request["trust"]) and not control
    alone = {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enable_expert_parallel": False,
        "distributed_executor_backend": None,
        "nnodes": 1,
        "node_rank": 0,
        **more,
    }
    for name, value in alone.items():
        if hasattr(arguments, name):
            setattr(arguments, name, value)
    return arguments


def without(words: list[str], unknown: list[str]) -> list[str]:
    """Leave out words that a parser listed, in their order, as not known to it."""
    kept, rest = [], list(unknown)
    for word in words:
        if rest and word == rest[0]:
            rest.pop(0)
        else:
            kept.append(word)
    return kept


def config(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Make vLLM's configuration of a model from its config.json."""
    made = planned(asked, control=control, speculative_config=None).create_model_config()
    kind = type(made.hf_config)
    faults = []
    own = asked.modules("vllm/transformers_utils/configs/")
    if not control and kind.__module__ not in own:
        model_type = re.escape(str(made.hf_config.model_type))
        for name in own:
            text = (asked.root / (name.replace(".", "/") + ".py")).read_text()
            if re.search(rf"^    model_type\b[^=\n]*= [\"']{model_type}[\"']", text, re.MULTILINE):
                faults.append(
                    (f"the grafted config class of {name}", f"{kind.__module__}.{kind.__name__}")
                )
    return found(
        faults,
        config=f"{kind.__module__}.{kind.__name__}",
        architecture=str(getattr(made, "architecture", "")),
        multimodal=bool(made.is_multimodal_model),
    )


def tokenizer(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Load tokenizer and processor as vLLM does, and see that text survives."""
    try:
        from vllm.tokenizers import get_tokenizer
    except ImportError:
        from vllm.transformers_utils.tokenizer import get_tokenizer
    trust = bool(asked.request["trust"]) and not control
    made = get_tokenizer(asked.folder(control=control), trust_remote_code=trust)
    back = made.decode(made.encode(SAMPLE))
    lost = sorted(letters(SAMPLE) - letters(back))
    spaces = SAMPLE.count(" ") - back.strip().count(" ")
    faults = []
    if lost or spaces > 0:
        faults.append((f"{SAMPLE!r} to survive the tokenizer", f"{back[:200]!r}"))
    facts = {"tokenizer": type(made).__name__}
    model = model_config(asked, control=control)
    if model is not None and model.is_multimodal_model and asked.request["processors"]:
        from vllm.transformers_utils.processor import cached_processor_from_config

        facts["processor"] = type(cached_processor_from_config(model)).__name__
    return found(faults, **facts)


def model_config(asked: Asked, *, control: bool) -> Any:
    """Make the configuration that a processor wants; None where there is none, which is the gate `config`'s to say."""
    try:
        return planned(asked, control=control, speculative_config=None).create_model_config()
    except Exception:
        if control:
            raise
        return None


def letters(text: str) -> set[str]:
    return {c for c in unicodedata.normalize("NFKD", text).lower() if not c.isspace()}


def speculative(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Make the whole engine's configuration with its draft."""
    ngram = {"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_max": 2}
    more = {"speculative_config": ngram if control else asked.request["speculative"]}
    made = planned(asked, control=control, **more).create_engine_config().speculative_config
    if made is None:
        return found([("a speculative configuration", "none")])
    if control:
        return found([])
    draft = (
        getattr(made.draft_model_config, "architecture", "")
        or made.draft_model_config.architectures[0]
    )
    faults = []
    wanted = asked.request["drafts"]
    if wanted and draft not in wanted:
        faults.append((f"a draft of {' or '.join(wanted)}", str(draft)))
    return found(faults, method=str(made.method), draft=str(draft))


# ── parsers, flags ────────────────────────────────────────────────────────────────────────────────


def parsers(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that each planned parser is registered, and is the grafted one."""
    faults, told = [], {}
    for kind, name in asked.request["parsers"].items():
        known, get = registered(kind)
        if control:
            own = [each for each, module in known.items() if module not in asked.modules()]
            get(own[0])
            continue
        grafted = [each for each, module in known.items() if module in asked.modules()]
        brought = asked.modules(
            "vllm/reasoning/" if kind == "reasoning-parser" else "vllm/tool_parsers/"
        )
        wanted = name or next(iter(grafted), "")
        if wanted not in known:
            at = (
                f"; grafted, and registered nowhere: {', '.join(brought)}"
                if brought and not grafted
                else ""
            )
            faults.append(
                (f"the {kind} {wanted or 'of the graft'} to be registered", f"no such name{at}")
            )
            continue
        made = get(wanted)
        told[f"{kind} {wanted}"] = f"{made.__module__}.{made.__name__}"
        if grafted and made.__module__ not in asked.modules():
            faults.append(
                (
                    f"the grafted {kind}, which this image registers as {' or '.join(grafted)}",
                    f"{wanted} is the base's own, {made.__module__}.{made.__name__}",
                )
            )
        elif brought and not grafted:
            faults.append(
                (
                    f"the grafted {kind} ({', '.join(brought)}) under {wanted}",
                    f"{made.__module__}.{made.__name__}",
                )
            )
    return found(faults, parsers=told)


def registered(kind: str) -> tuple[dict[str, str], Any]:
    """Give the parsers of a kind by name, each with its module, and the way to its class."""
    if kind == "reasoning-parser":
        from vllm.reasoning import ReasoningParserManager as Manager

        loaded, get = Manager.reasoning_parsers, Manager.get_reasoning_parser
    else:
        try:
            from vllm.tool_parsers import ToolParserManager as Manager
        except ImportError:
            from vllm.entrypoints.openai.tool_parsers import ToolParserManager as Manager

        loaded, get = Manager.tool_parsers, Manager.get_tool_parser
    known = {name: made.__module__ for name, made in loaded.items()}
    lazy = getattr(Manager, "lazy_parsers", {})
    return {**{name: place[0] for name, place in lazy.items()}, **known}, get


def flags(asked: Asked, *, control: bool) -> dict[str, Any]:
    """Let this install's own parser take the planned words."""
    words = ["--max-model-len", "16"] if control else list(asked.request["serve"])
    parser, module = serve_parser()
    try:
        told = parser.parse_args(["--model", asked.folder(control=control), *words])
        check = getattr(module, "validate_parsed_serve_args", None)
        if check is not None:
            check(told)
    except (ValueError, TypeError, KeyError, SystemExit) as error:
        return found([("every planned word of `vllm serve` to be taken", str(error)[:2000])])
    return found([], words=len(words))


def nodes(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that the planned way to several nodes is there."""
    importlib.import_module("vllm.v1.executor.abstract")
    if control:
        return found([])
    parser, _ = serve_parser()
    native = all(option in parser._option_string_actions for option in ("--nnodes", "--headless"))
    ray, why = "", ""
    try:
        ray = str(importlib.import_module("ray").__version__)
    except BaseException as error:
        why = f"{type(error).__name__}: {error}"
    faults = []
    way = asked.request["way"]
    if way == "ray" and not ray:
        faults.append(("Ray, as planned", why))
    if way == "native" and not native:
        faults.append(("--nnodes and --headless, as planned", "this vLLM has no such flags"))
    if way == "any" and not (ray or native):
        faults.append(
            ("a way to several nodes", f"neither --nnodes and --headless nor Ray ({why})")
        )
    return found(faults, ray=ray or why, native=native)


# ── caches ────────────────────────────────────────────────────────────────────────────────────────


def caches(asked: Asked, *, control: bool) -> dict[str, Any]:
    """See that no kept answer of vLLM's registry hides what a class says now.

    The answers are kept by class name with a digest of its file. The registry was asked anew before, into a cache
    of our own: an old answer with the same digest and another content would be believed.
    Source: vllm 0.14.1, model_executor/models/registry.py, ``_LazyRegisteredModel``.
    """
    fresh = asked.home / "cache" / "modelinfos"
    kept = Path(asked.request["cache"]) / "modelinfos"
    if control:
        return found([])
    faults, compared = [], 0
    for file in sorted(fresh.glob("*.json")):
        old = kept / file.name
        try:
            before = json.loads(old.read_text())
        except (OSError, ValueError):
            continue
        now = json.loads(file.read_text())
        compared += 1
        if before.get("hash") == now.get("hash") and before.get("modelinfo") != now.get(
            "modelinfo"
        ):
            keys = {**now["modelinfo"], **before["modelinfo"]}
            other = sorted(k for k in keys if now["modelinfo"].get(k) != before["modelinfo"].get(k))
            faults.append(
                (
                    f"no kept answer about {file.stem} that differs from the class",
                    f"{old}: {', '.join(other)}",
                )
            )
    return found(faults, folder=str(kept), compared=compared)


CHECKS = {
    "files": files,
    "import": imports,
    "registry": registry,
    "config": config,
    "tokenizer": tokenizer,
    "parsers": parsers,
    "speculative": speculative,
    "caches": caches,
    "nodes": nodes,
    "flags": flags,
}
