"""How a model is split over the GPUs of a deployment."""

from collections.abc import Sequence

from vllm_graft.cluster.launch import said
from vllm_graft.errors import RequestError

_PIPELINE = ("--pipeline-parallel-size", "-pp")
_DATA = ("--data-parallel-size", "-dp")


def plan_tensor_parallel(
    wanted: int | None, args: Sequence[str], gpus: Sequence[int], names: Sequence[str]
) -> int:
    """Give over how many GPUs each layer is split; a node without GPUs counts as one.

    ``gpus``: of each node, in the order of ``names``.

    Source: vLLM 0.12 to 0.31, v1/executor/multiproc_executor.py: every node takes the same number of ranks.

    Raises:
        RequestError: E222, the nodes cannot be filled evenly, or have too few GPUs.
    """
    words = tuple(args)
    stages = _number(said(words, *_PIPELINE))
    ranks = [max(each, 1) for each in gpus]
    if wanted is None:
        wanted = _all_of_them(
            ranks, stages, names, is_data_parallel=said(words, *_DATA) is not None
        )
    total = wanted * stages
    each, rest = divmod(total, len(gpus))
    split = f"tensor parallel {wanted}" + (
        f" with pipeline parallel {stages}" if stages > 1 else ""
    )
    if rest or not each:
        raise _refused(
            f"{split} makes {total} ranks, which {len(gpus)} nodes cannot take evenly",
            f"say a [serve] tensor_parallel that makes a multiple of {len(gpus)} ranks, or name fewer nodes",
        )
    few = [name for name, has in zip(names, gpus, strict=True) if 0 < has < each]
    if few:
        raise _refused(
            f"{split} puts {each} ranks on each of {len(gpus)} nodes, and {', '.join(few)} has fewer GPUs",
            "say a smaller [serve] tensor_parallel, or name more nodes",
        )
    return wanted


def pipeline_stages(args: Sequence[str]) -> int:
    """Give over how many stages the layers are shared out.

    Raises:
        RequestError: E222, that is no number.
    """
    return _number(said(tuple(args), *_PIPELINE))


def _all_of_them(
    ranks: Sequence[int], stages: int, names: Sequence[str], *, is_data_parallel: bool
) -> int:
    if is_data_parallel or len(set(ranks)) > 1 or sum(ranks) % stages:
        told = ", ".join(f"{name} {number}" for name, number in zip(names, ranks, strict=True))
        why = "with data parallel" if is_data_parallel else f"with {told}"
        raise _refused(
            f"how the model is to be split over the GPUs does not follow from the nodes ({why})",
            "say it with [serve] tensor_parallel",
        )
    return sum(ranks) // stages


def _number(text: str | None) -> int:
    if text is None:
        return 1
    if not text.isdecimal() or not int(text):
        raise _refused(
            f"--pipeline-parallel-size takes a number, found {text!r}", "mend [serve] args"
        )
    return int(text)


def _refused(what: str, remedy: str) -> RequestError:
    return RequestError(what, remedy=remedy, code="E222")
