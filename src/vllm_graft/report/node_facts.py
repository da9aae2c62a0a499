# One row for each question, one short answer for each node: what differs stands side by side.
"""Facts of nodes as words."""

from collections.abc import Callable, Mapping, Sequence

from vllm_graft.report.memory import share_of
from vllm_graft.values.amount import memory, size
from vllm_graft.values.doctor import DoctorReport, HopFacts, NodeReport, PathFacts
from vllm_graft.values.node_facts import ImagePresence, Interface, NodeFacts
from vllm_graft.values.probe import NotKnown

Row = tuple[str, Sequence[str]]
"""What is asked, and the answer of each node; a newline in one begins a new line."""

_UNKNOWN = "not known: "


def fact_rows(report: DoctorReport) -> list[Row]:
    """Give the rows of the table, its columns the nodes in their order; what no node has to say is left out."""
    rows = [
        (label, [_said(node, tell) for node in report.nodes]) for label, tell in _TELLERS.items()
    ]
    references = dict.fromkeys(
        name
        for node in report.nodes
        if isinstance(node.facts, NodeFacts)
        for name in node.facts.images
    )
    rows += [
        (name, [_said(node, lambda facts, name=name: _image(facts, name)) for node in report.nodes])
        for name in references
    ]
    rows += [*_memory_shares(report), *_seats(report), *_paths(report), *_hops(report)]
    return [(label, cells) for label, cells in rows if any(cells)]


def _said(node: NodeReport, tell: Callable[[NodeFacts], str]) -> str:
    if isinstance(node.facts, NotKnown):
        return "nothing is known" if tell is _system else ""
    return tell(node.facts)


def _unknown(why: NotKnown) -> str:
    return _UNKNOWN + why.not_known


def _system(facts: NodeFacts) -> str:
    return _unknown(facts.system) if isinstance(facts.system, NotKnown) else facts.system


def _kernel(facts: NodeFacts) -> str:
    kernel, processors = facts.kernel, facts.processors
    if isinstance(kernel, NotKnown):
        return _unknown(kernel)
    told = f"{kernel.system.lower()}/{kernel.architecture}"
    if not isinstance(processors, NotKnown):
        told += f", {processors.count} CPUs"
    return f"{told}, kernel {kernel.release}"


def _engine(facts: NodeFacts) -> str:
    told = facts.engine
    if isinstance(told, NotKnown):
        return _unknown(told)
    store = "containerd's store" if told.is_containerd_store else told.store
    through = " through sudo" if told.through_sudo else ""
    return f"{told.name} {told.version}{through}, {store}"


def _space(facts: NodeFacts) -> str:
    if isinstance(facts.engine, NotKnown):
        return ""
    told = facts.space
    if isinstance(told, NotKnown):
        return _unknown(told)
    return f"{size(told.free)} of {size(told.size)} free at {told.place}"


def _gpus(facts: NodeFacts) -> str:
    told = facts.gpus
    if isinstance(told, NotKnown):
        return _unknown(told)
    driver = told[0].driver
    names = dict.fromkeys(gpu.name for gpu in told)
    count = f"{len(told)} of " if len(told) > 1 else ""
    cuda = "" if isinstance(facts.cuda, NotKnown) else f", CUDA {facts.cuda}"
    return f"{count}{', '.join(names)}, driver {driver}{cuda}"


def _gpu_memory(facts: NodeFacts) -> str:
    if isinstance(facts.gpus, NotKnown):
        return ""
    own = [gpu for gpu in facts.gpus if gpu.memory is not None]
    if len(own) < len(facts.gpus):
        return "that of the machine (unified)"
    return "\n".join(f"{memory(gpu.free or 0)} of {memory(gpu.memory or 0)} free" for gpu in own)


def _memory(facts: NodeFacts) -> str:
    told = facts.memory
    if isinstance(told, NotKnown):
        return _unknown(told)
    return f"{memory(told.available)} of {memory(told.total)} can be had, {memory(told.cached)} are cached files"


def _fabric(facts: NodeFacts) -> str:
    if isinstance(facts.rdma, NotKnown):
        return _unknown(facts.rdma)
    interfaces = (
        {}
        if isinstance(facts.interfaces, NotKnown)
        else {each.name: each for each in facts.interfaces}
    )
    return "\n".join(
        f"{port.device}: {_link(interfaces.get(port.interface), port.interface)}"
        for port in facts.rdma
        if port.is_active
    )


def _link(interface: Interface | None, name: str) -> str:
    if interface is None:
        return name
    addresses = ", ".join(
        f"{each.address}/{each.prefix}" for each in interface.addresses if "." in each.address
    )
    rate = f", {interface.speed // 1000} Gb/s" if interface.speed else ""
    return f"{name} {addresses or 'no address'}, MTU {interface.mtu}{rate}"


def _route(facts: NodeFacts) -> str:
    routes, interfaces = facts.routes, facts.interfaces
    if isinstance(routes, NotKnown):
        return _unknown(routes)
    if not routes:
        return "none"
    if isinstance(interfaces, NotKnown):
        return routes[0].interface
    found = next((each for each in interfaces if each.name == routes[0].interface), None)
    wireless = ", wireless" if found and found.is_wireless else ""
    return _link(found, routes[0].interface) + wireless


def _model(facts: NodeFacts) -> str:
    told = facts.model
    if told is None:
        return ""
    if isinstance(told, NotKnown):
        return _unknown(told)
    return f"{size(told.size)} in {told.files} files, {told.folder}"


def _clock(facts: NodeFacts) -> str:
    told = facts.clock
    if isinstance(told, NotKnown):
        return _unknown(told)
    if abs(told.ahead) <= told.error:
        return "that of this machine"
    return f"{told.ahead / 1000:+,.2f} s (± {told.error / 1000:.2f} s)"


_TELLERS: Mapping[str, Callable[[NodeFacts], str]] = {
    "system": _system,
    "machine": _kernel,
    "engine": _engine,
    "room": _space,
    "GPU": _gpus,
    "GPU memory": _gpu_memory,
    "memory": _memory,
    "fabric": _fabric,
    "default route": _route,
    "clock": _clock,
    "model": _model,
}


def _image(facts: NodeFacts, name: str) -> str:
    image = facts.images.get(name)
    if image is None:
        return "absent" if not isinstance(facts.engine, NotKnown) else ""
    if isinstance(image, ImagePresence):
        return f"{image.platform}, {size(image.size)}, content {str(image.config)[7:19]}"
    return _unknown(image)


def _paths(report: DoctorReport) -> list[Row]:
    receivers = dict.fromkeys(path.receiver for path in report.paths)
    return [
        (
            f"to {receiver}",
            [
                "\n".join(
                    _path(path)
                    for path in report.paths
                    if (path.sender, path.receiver) == (node.name, receiver)
                )
                for node in report.nodes
            ],
        )
        for receiver in receivers
    ]


def _memory_shares(report: DoctorReport) -> list[Row]:
    return [("model's memory", [share_of(report.memory, node.name) for node in report.nodes])]


def _seats(report: DoctorReport) -> list[Row]:
    seats = {each.node: f"{each.address} ({each.interface})" for each in report.seats}
    return [("ranks talk at", [seats.get(node.name, "") for node in report.nodes])]


def _hops(report: DoctorReport) -> list[Row]:
    return [
        (
            f"ship to {hop.receiver}",
            [_hop(hop) if node.name == hop.sender else "" for node in report.nodes],
        )
        for hop in report.hops
    ]


def _hop(hop: HopFacts) -> str:
    if isinstance(hop.kind, NotKnown):
        return _unknown(hop.kind)
    if hop.kind == "relay":
        return "through this machine"
    where = f" ({hop.interface})" if hop.interface else ""
    rate = f", {size(hop.rate)}/s" if hop.rate else ""
    pulled = ", from the other end" if hop.kind == "pull" else ""
    return f"{hop.address}{where}{rate}{pulled}"


def _path(path: PathFacts) -> str:
    over = f" over {path.interface}" if path.interface else ""
    if isinstance(path.answered, NotKnown):
        return f"{path.address}{over}: {_unknown(path.answered)}"
    if not path.answered:
        return f"{path.address}{over}: no answer"
    trip = f"{path.trip / 1000:.2f} ms" if path.trip is not None else "answers"
    whole = {True: f", {path.mtu} bytes pass", False: f", {path.mtu} bytes do not pass", None: ""}
    return f"{path.address}{over}: {trip}{whole[path.whole_frames]}"
