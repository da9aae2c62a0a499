"""What stands in the way of nodes that talk to each other, as each of them sees it."""

import ipaddress
from collections.abc import Iterator, Sequence
from itertools import combinations

from vllm_graft.fleet.preflight.wanted import Seen, Wanted
from vllm_graft.values.doctor import NodeFinding
from vllm_graft.values.node_facts import FirewallFacts, Interface, Listener
from vllm_graft.values.probe import NotKnown


def judge_ports(node: Seen, wanted: Wanted) -> Iterator[NodeFinding]:
    """Say that the port of the model is taken (N301), and by whom."""
    listeners = node.facts.listeners
    if not node.is_head or isinstance(listeners, NotKnown):
        return
    taken = [
        each for each in listeners if each.port == wanted.port and meets(each.address, wanted.host)
    ]
    if taken:
        yield node.finding(
            "N301",
            "blocked" if wanted.is_serving else "review",
            ("up",),
            wanted=f"port {wanted.port} free, where the model is to answer",
            found=f"{_owner(node, wanted.port, taken)} listens on {taken[0].address}:{wanted.port}",
            remedy="stop it, or set serve.port to another",
        )


_EVERYWHERE = ("0.0.0.0", "*", "::", "")  # noqa: S104 (compared, not bound)


def meets(listening: str, wanted: str) -> bool:
    """Tell whether somebody who listens at one address leaves no room for another at the same port.

    ``listening`` as ``ss`` writes it: ``*``, ``[::]``, ``127.0.0.53%lo``; an empty ``wanted`` is any address.
    """
    taken, asked = (
        each.partition("%")[0].strip("[]").removeprefix("::ffff:") for each in (listening, wanted)
    )
    return taken in _EVERYWHERE or asked in _EVERYWHERE or taken == asked


def _owner(node: Seen, port: int, taken: Sequence[Listener]) -> str:
    containers = node.facts.containers
    if not isinstance(containers, NotKnown):
        for each in containers:
            if port in each.ports:
                return f"the container {each.name} ({each.image})"
    named = next((each for each in taken if each.process), None)
    return (
        f"{named.process} (pid {named.pid})"
        if named
        else "a process of another user (sudo ss -ltnp tells which)"
    )


def judge_names(node: Seen) -> Iterator[NodeFinding]:
    """Say that a node's own name leads to itself alone (N303)."""
    addresses = node.facts.host_addresses
    name = node.facts.host_name
    shown = "its own name" if isinstance(name, NotKnown) else f"its own name {name}"
    if isinstance(addresses, NotKnown):
        found = f"{shown} leads nowhere"
    elif all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in addresses):
        found = f"{shown} leads to {', '.join(addresses)}"
    else:
        return
    yield node.finding(
        "N303",
        "note",
        ("up",),
        wanted="a name that leads to an address which the other nodes reach",
        found=found,
        remedy="`vllm-graft up` tells each rank its address; another launcher must (VLLM_HOST_IP, GLOO_SOCKET_IFNAME), or ranks look"
        " for each other on their own machine: then mend its line in /etc/hosts",
    )


def judge_ways_out(node: Seen) -> Iterator[NodeFinding]:
    """Say that the default route is wireless (N304), and that a firewall is on (N302)."""
    routes, interfaces = node.facts.routes, node.facts.interfaces
    if not isinstance(routes, NotKnown) and not isinstance(interfaces, NotKnown) and routes:
        wireless = {each.name for each in interfaces if each.is_wireless}
        if routes[0].interface in wireless:
            yield node.finding(
                "N304",
                "review",
                ("ship", "up"),
                wanted="a cable where the default route goes",
                found=f"it goes over {routes[0].interface}, which is wireless",
                remedy="what takes the address of the default route for its own (vLLM, Ray, Gloo) ends where the wireless link blinks:"
                " name the fabric's interface, or plug in a cable",
            )
    firewall = node.facts.firewall
    if isinstance(firewall, FirewallFacts) and firewall.active:
        yield node.finding(
            "N302",
            "review",
            ("up",),
            wanted="all TCP ports open between the nodes: ranks choose theirs at each start",
            found=f"{', '.join(firewall.active)} is on",
            remedy=_OPEN.get(firewall.active[0], "let the other nodes' addresses through"),
        )


_OPEN = {
    "ufw": "sudo ufw allow from ADDRESS-OF-THE-OTHER-NODE, on each of them",
    "firewalld": "sudo firewall-cmd --zone=trusted --add-source=ADDRESS-OF-THE-OTHER-NODE, on each of them",
}


def judge_networks(node: Seen) -> Iterator[NodeFinding]:
    """Say that two interfaces have addresses in one network (N308)."""
    interfaces = node.facts.interfaces
    if isinstance(interfaces, NotKnown):
        return
    up = [each for each in interfaces if each.is_outward]
    for first, second in combinations(up, 2):
        # Addresses that exist on each link anew (169.254.0.0/16) are told by N313.
        both = networks(first) & networks(second)
        shared = {each for each in both if not each.is_link_local}
        if shared:
            yield node.finding(
                "N308",
                "review",
                ("ship", "up"),
                wanted="a network of its own for each interface",
                found=f"{first.name} and {second.name} both have addresses in {', '.join(sorted(map(str, shared)))}",
                remedy="give each its own network: with one, answers leave by whichever route is first",
            )


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(interface: Interface) -> set[Network]:
    """Give the networks that an interface is in; an address that is its whole network, as a tunnel's may be, is in none."""
    found = {
        ipaddress.ip_interface(f"{each.address.partition('%')[0]}/{each.prefix}").network
        for each in interface.addresses
    }
    return {each for each in found if each.prefixlen < each.max_prefixlen}
