# A signature with ``**kwargs`` binds whatever it is given. Where the donor's has a parameter of that name and the base has
# the name nowhere, the value comes to nothing there, or to an error further down.
"""Keywords that a signature takes as any other, and nothing reads."""

from collections.abc import Sequence

from vllm_graft.link.contract import Mismatch
from vllm_graft.link.pair import Pair
from vllm_graft.link.symbols import Parameter
from vllm_graft.link.uses import CallUse


def unread_keywords(
    pair: Pair, call: CallUse, donors: Sequence[Parameter], theirs: Sequence[Parameter]
) -> Mismatch | None:
    """Find keywords that the base's signature takes as any other, that the donor's engine knows and nothing there reads.

    They go into a mapping that is handed to whatever takes it, or to nobody. The donor's own signature may take them as
    any other too.
    Source: vLLM 0.14.1 and 0.17.1, ``Attention``: ``**extra_impl_args`` go to the backend, which refuses what it does not
    know (``use_alibi_sqrt``, ``chunk_lookback``).
    """
    if not any(p.kind == "varkeywords" for p in theirs):
        return None
    mine, named = ({p.name for p in each if p.kind != "varkeywords"} for each in (donors, theirs))
    lost = tuple(
        one.name
        for one in call.keywords
        if one.name not in named
        and not pair.base.files.mention(one.name.encode())
        and (one.name in mine or _is_read_by_the_engine(pair, one.name))
    )
    if not lost:
        return None
    reason = f"takes any keyword, but nothing there reads {', '.join(lost)}"
    return Mismatch(reason, lost, only_keywords=True)


def _is_read_by_the_engine(pair: Pair, name: str) -> bool:
    """Tell whether the donor's engine names a keyword."""
    paths = pair.donor.files.containing(name.encode())
    return any(
        pair.room_of(path.removesuffix(".py").replace("/", ".")) == "engine" for path in paths
    )
