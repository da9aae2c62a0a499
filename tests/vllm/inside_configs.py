# Runs in a plain process with one transformers and neither vLLM nor torch imported: loads config classes from their files and
# reads a config.json with them, as vLLM's own look-up does (`from_pretrained` of the class that its registry names).
"""Load config classes under the transformers that is first on the path."""

import importlib.util
import json
import sys
import traceback
from pathlib import Path


def loaded(file: str, class_name: str, folder: str) -> str:
    """Say ``ok``, or how loading fails."""
    try:
        name = f"config_{Path(file).stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        config = getattr(module, class_name).from_pretrained(folder)
        assert config.text_config.num_hidden_layers > 0
    except Exception as error:  # noqa: BLE001 (whatever goes wrong is the answer)
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return "ok"


def main() -> None:
    """Answer a question file."""
    asked = json.loads(Path(sys.argv[1]).read_text())
    import transformers

    answers = [loaded(each["file"], each["class"], each["folder"]) for each in asked["cases"]]
    told = {"transformers": transformers.__version__, "answers": answers}
    Path(sys.argv[2]).write_text(json.dumps(told))


main()
