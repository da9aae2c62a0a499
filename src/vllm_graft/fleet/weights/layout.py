# Where the files of a model are, and what they are called while they are not whole. A Hugging Face cache keeps bytes under
# blobs/, by the name of their content, and a revision as a folder of links to them; whoever looks for a revision finds it
# through refs/ or by its folder. So what is sent lies in a hidden folder until everything is there: then the bytes get their
# names, the folder of the revision appears, and the reference to it last. In a plain folder, config.json comes last.
"""Where the files of a model lie."""

from collections.abc import Iterable

from vllm_graft.values.weights import WeightFile, Weights

STAGE = ".vllm-graft"
"""Below the model's folder: on the same file system, and nobody looks into it."""


def staged(root: str, path: str = "") -> str:
    """Give where a file is until everything is there; without one, the folder that they are in."""
    return f"{root}/{STAGE}/files/{path}"


def folder_of(root: str, commit: str) -> str:
    """Give the folder that the model's files are in, as vLLM may be given it."""
    return f"{root}/snapshots/{commit}" if commit else root


def stored(file: WeightFile, commit: str) -> str:
    """Give where the bytes of a file are, from the model's root.

    Source: huggingface_hub 1.x and 2.x, "Understand caching".
    """
    if file.blob:
        return f"blobs/{file.blob}"
    return shown(file, commit)


def shown(file: WeightFile, commit: str) -> str:
    """Give where a file is looked for, from the model's root."""
    return f"snapshots/{commit}/{file.path}" if commit else file.path


def link_to(path: str, blob: str) -> str:
    """Give what the link of a file says: relative, so that the cache may be mounted elsewhere."""
    return f"{'../' * (path.count('/') + 2)}blobs/{blob}"


def placing(
    weights: Weights, lacking: Iterable[WeightFile], arrived: Iterable[WeightFile]
) -> bytes:
    """Give what the script reads that puts files in place: a line for each, with tabs in between.

    ``lacking``: those that are not to be found where they are looked for; ``arrived``: those whose bytes were sent.
    """
    lines = [f"blob\t{file.blob}" for file in arrived if file.blob]
    for file in sorted(lacking, key=_last_what_is_looked_for_first):
        if file.blob:
            lines.append(f"link\t{file.path}\t{link_to(file.path, file.blob)}")
        else:
            lines.append(f"file\t{file.path}\t{stored(file, weights.commit)}")
    return "".join(f"{line}\n" for line in dict.fromkeys(lines)).encode("utf-8", "surrogateescape")


def _last_what_is_looked_for_first(file: WeightFile) -> tuple[bool, bool, str]:
    return file.path == "config.json", file.path.endswith(".json"), file.path
