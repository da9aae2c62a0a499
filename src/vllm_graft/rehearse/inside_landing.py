# Runs inside an install (see inside_gates.py): where each tensor of a checkpoint goes while a model's own loader runs. Nothing is
# believed that the loader says of itself: every operation of torch is watched. What is made of a tensor (a view, a turned or
# converted copy) still counts as it; a write into a parameter's storage is kept with the region that it covers. All of it holds
# of tensors without memory (device meta) too, so that a model of any size can be watched.
"""Watch which tensor lands where, and how much of a parameter is covered."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

MEASURED = 1 << 26
"""Elements of a parameter whose regions may be measured one by one, where they are no boxes."""

PLACED = frozenset(
    f"aten::{name}"
    for name in (
        *("copy_", "clone", "_to_copy", "cat", "stack", "index", "index_select", "index_put_"),
        *("empty_like", "zeros_like", "fill_", "flip", "roll", "permute_copy", "as_strided_copy"),
    )
)
"""Operations that leave numbers as they are."""

Region = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Offset, sizes and strides in a storage."""


def storage(tensor: Any) -> int:
    """Identify what a tensor is a view of."""
    return tensor.untyped_storage()._cdata


def region(tensor: Any) -> Region:
    return tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())


@dataclass
class Ledger:
    """What was seen."""

    places: dict[int, list[str]] = field(default_factory=dict)
    """Storage → names of the parameters and buffers in it."""
    given: dict[int, str] = field(default_factory=dict)
    """Storage → name of the tensor of the checkpoint."""
    made_of: dict[int, frozenset[str]] = field(default_factory=dict)
    """Storage → tensors that what is in it was made of."""
    kept: list[Any] = field(default_factory=list)
    """Whatever is named above by its storage must not be freed: the next one would have its address."""
    landed: dict[str, set[str]] = field(default_factory=dict)
    """Tensor → parameters."""
    written: dict[str, set[Region]] = field(default_factory=dict)
    """Parameter → regions."""
    read: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tensor → the first element that was read of it, and the one after the last."""
    spread: dict[str, str] = field(default_factory=dict)
    """Tensor → how it was repeated to fill a larger place."""
    computed: set[str] = field(default_factory=set)
    """Tensors whose numbers were changed on the way, and not only placed otherwise."""
    changed: set[int] = field(default_factory=set)
    """Storages that hold such numbers."""
    scalar: frozenset[str] = frozenset()
    """Tensors whose only number was taken out, and may be filled in next."""

    def watch(self, name: str, tensor: Any) -> None:
        """Watch a parameter or a buffer."""
        self.kept.append(tensor)
        self.places.setdefault(storage(tensor), []).append(name)

    def give(self, name: str, tensor: Any) -> None:
        """Note a tensor of the checkpoint."""
        self.kept.append(tensor)
        self.given[storage(tensor)] = name

    def sources(self, tensor: Any) -> frozenset[str]:
        """Give the tensors of the checkpoint that one was made of."""
        at = storage(tensor)
        if at in self.given:
            return frozenset((self.given[at],))
        return self.made_of.get(at, frozenset())

    def note_read(self, tensor: Any) -> None:
        """Note that a tensor's numbers were used."""
        name = self.given.get(storage(tensor))
        if name is None or not tensor.numel():
            return
        first = tensor.storage_offset()
        last = first + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        before = self.read.get(name, (first, last + 1))
        self.read[name] = (min(before[0], first), max(before[1], last + 1))

    def note_write(self, tensor: Any, sources: frozenset[str]) -> None:
        """Note that something was written."""
        at = storage(tensor)
        if at not in self.places:
            if sources:
                self.kept.append(tensor)
                self.made_of[at] = self.made_of.get(at, frozenset()) | sources
            return
        for name in self.places[at]:
            self.written.setdefault(name, set()).add(region(tensor))
            for source in sources:
                self.landed.setdefault(source, set()).add(name)

    def is_changed(self, used: list[Any]) -> bool:
        """Tell whether one of these holds other numbers than the checkpoint."""
        return any(storage(each) in self.changed for each in used)

    def note_made(self, made: list[Any], sources: frozenset[str], *, changed: bool) -> None:
        """Note what was made of tensors of the checkpoint."""
        for each in made if sources else ():
            self.kept.append(each)
            self.made_of[storage(each)] = sources
            if changed:
                self.changed.add(storage(each))

    def note_spread(self, place: Any, given: Any, sources: frozenset[str]) -> None:
        """Note that something was repeated to fill a larger place; one number may be."""
        if given.numel() not in {1, place.numel()}:
            for name in sources:
                self.spread.setdefault(name, f"{list(given.shape)} over {list(place.shape)}")


def watching(ledger: Ledger) -> Any:
    """Make a mode of torch that fills the ledger."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return watched(ledger, func, args, kwargs or {})

    return Watch()


def watched(ledger: Ledger, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation, and note what it read and wrote."""
    if func._schema.name == "aten::_local_scalar_dense":
        ledger.scalar = ledger.sources(args[0])
        ledger.note_read(args[0])
        if args[0].device.type == "meta":
            return 1.0 if args[0].is_floating_point() else 0
    places, names, is_view = kind_of(func)
    made = run(func, args, kwargs)
    if is_view:
        return made
    targets = tensors([args[n] for n in places if n < len(args)])
    targets += tensors([kwargs[name] for name in names if name in kwargs])
    rest = tensors([each for n, each in enumerate(args) if n not in places])
    rest += tensors([each for name, each in kwargs.items() if name not in names])
    sources = frozenset[str]().union(*(ledger.sources(each) for each in rest))
    for each in rest:
        ledger.note_read(each)
    if not rest and targets:
        sources, ledger.scalar = ledger.scalar, frozenset()
    changed = ledger.is_changed(rest) or func._schema.name not in PLACED
    for each in targets:
        ledger.note_write(each, sources)
    if targets and changed:
        ledger.computed |= sources
    if func._schema.name == "aten::copy_":
        ledger.note_spread(args[0], args[1], sources)
    if not targets:
        ledger.note_made(tensors([made]), sources, changed=changed)
    return made


@cache
def kind_of(func: Any) -> tuple[tuple[int, ...], tuple[str, ...], bool]:
    """Tell which arguments an operation writes, by place and by name, and whether it gives a view."""
    arguments = func._schema.arguments
    writes = [one.alias_info is not None and one.alias_info.is_write for one in arguments]
    places = tuple(n for n, one in enumerate(writes) if one)
    names = tuple(one.name for one, is_one in zip(arguments, writes, strict=True) if is_one)
    is_view = not places and any(one.alias_info is not None for one in func._schema.returns)
    return places, names, is_view


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation; one that needs numbers of a tensor without any gives a tensor without any.

    Some parameters are made in memory all the same, and some loaders move what they are given there.
    """
    bare = {each.device.type == "meta" for each in tensors([*args, *kwargs.values()])}
    if func._schema.name == "aten::_to_copy" and bare == {True}:
        return func(*args, **{**kwargs, "device": None})
    if bare != {True, False}:
        return func(*args, **kwargs)
    made = func(*without_numbers(args), **{k: without_numbers(v) for k, v in kwargs.items()})
    return args[0] if 0 in kind_of(func)[0] else made


def without_numbers(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        if value.device.type == "meta":
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, list | tuple):
        return type(value)(without_numbers(each) for each in value)
    return value


def tensors(listed: Any) -> list[Any]:
    import torch

    found: list[Any] = []
    for each in listed:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += tensors(each)
    return found


# ── how much of a parameter is covered ────────────────────────────────────────────────────────────


def uncovered(parameter: Any, regions: set[Region]) -> int | None:
    """Give how many elements of a parameter no region covers; None: that cannot be measured."""
    offset, shape, strides = region(parameter)
    boxes: set[tuple[tuple[int, int], ...]] = set()
    odd: list[Region] = []
    for start, sizes, steps in regions:
        if 0 in sizes:
            continue
        box = as_box(start - offset, sizes, steps, shape, strides)
        if box is None:
            odd.append((start - offset, sizes, steps))
        else:
            boxes.add(box)
    total = parameter.numel()
    if tuple((0, size) for size in shape) in boxes or not total:
        return 0
    if not odd:
        return total - covered(boxes, len(shape))
    if total > MEASURED or not parameter.is_contiguous():
        return None
    return uncovered_of_odd(shape, boxes, odd)


def as_box(
    start: int,
    sizes: tuple[int, ...],
    steps: tuple[int, ...],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> tuple[tuple[int, int], ...] | None:
    """Give a region as a box of a parameter's own axes; None: it is none."""
    axes = sorted((n for n in range(len(shape)) if shape[n] > 1), key=lambda n: -strides[n])
    first = [0] * len(shape)
    rest = start
    for axis in axes:
        first[axis], rest = divmod(rest, strides[axis])
    if rest or start < 0 or any(first[n] >= shape[n] for n in range(len(shape))):
        return None
    extent = [1] * len(shape)
    for size, step in joined(sizes, steps):
        left, at = size, step
        # One axis of the region may run over several of the parameter's, the inner ones whole.
        while left > 1:
            axis = next((n for n in axes if strides[n] == at), None)
            if axis is None or extent[axis] > 1:
                return None
            taken = min(left, shape[axis] - first[axis])
            if left > taken and (first[axis] or left % shape[axis]):
                return None
            extent[axis] = taken
            left //= taken
            at = strides[axis] * shape[axis]
    return tuple((first[n], first[n] + extent[n]) for n in range(len(shape)))


def joined(sizes: tuple[int, ...], steps: tuple[int, ...]) -> list[tuple[int, int]]:
    """Join neighbouring axes that run on into each other."""
    axes = sorted(
        ((size, step) for size, step in zip(sizes, steps, strict=True) if size > 1),
        key=lambda one: -one[1],
    )
    found: list[tuple[int, int]] = []
    for size, step in axes:
        if found and found[-1][1] == step * size:
            found[-1] = (found[-1][0] * size, step)
        else:
            found.append((size, step))
    return found


def covered(boxes: set[tuple[tuple[int, int], ...]], axes: int) -> int:
    """Count the elements in any of the boxes."""
    import numpy as np

    if not boxes:
        return 0
    cuts = [sorted({edge for box in boxes for edge in box[n]}) for n in range(axes)]
    index = [{edge: n for n, edge in enumerate(edges)} for edges in cuts]
    grid = np.zeros([max(len(edges) - 1, 1) for edges in cuts], dtype=bool)
    for box in boxes:
        grid[tuple(slice(index[n][a], index[n][b]) for n, (a, b) in enumerate(box))] = True
    size: Any = np.ones([1] * axes, dtype=np.int64)
    for n, edges in enumerate(cuts):
        size = size * np.diff(edges).reshape([-1 if m == n else 1 for m in range(axes)])
    return int((grid * size).sum())


def uncovered_of_odd(
    shape: tuple[int, ...], boxes: set[tuple[tuple[int, int], ...]], odd: list[Region]
) -> int:
    """Count one by one what neither boxes nor other regions cover."""
    import torch

    seen = torch.zeros(shape, dtype=torch.bool, device="cpu")
    for box in boxes:
        seen[tuple(slice(a, b) for a, b in box)] = True
    for start, sizes, steps in odd:
        seen.as_strided(sizes, steps, start).fill_(True)
    return int((~seen).sum())
