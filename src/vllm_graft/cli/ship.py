# The words of `ship`, and what becomes of them.
"""``vllm-graft ship``."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vllm_graft.cli.setting import Result, Setting
from vllm_graft.errors import GraftError, RequestError
from vllm_graft.values.node import LOCALHOST
from vllm_graft.values.ship import ShipReceipt
from vllm_graft.values.shipment import Shipment
from vllm_graft.values.weights import WeightsReceipt

_ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*", re.ASCII)


class _ImageOrNode(argparse.Action):
    """The first word is an image, unless weights are named before it: then all words are nodes."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Keep it as what it is."""
        del parser, option_string
        setattr(namespace, "first_node" if namespace.weights else self.dest, values)


def add_ship(verb: argparse.ArgumentParser) -> None:
    """Add the words of ``ship``."""
    verb.usage = (
        "%(prog)s [options] IMAGE NODE ... [--weights MODEL]\n"
        "       %(prog)s [options] --weights MODEL NODE ..."
    )
    image = verb.add_argument(
        "image",
        metavar="IMAGE",
        action=_ImageOrNode,
        default="",
        help="the name of an image in this machine's engine, or IMAGE@NODE in that of another machine; left out where --weights"
        " stands before the nodes",
    )
    nodes = verb.add_argument(
        "nodes",
        metavar="NODE",
        nargs="+",
        default=[],
        help="machines that are to have it, as behind ssh; localhost is this one",
    )
    image.required = nodes.required = (
        False  # with weights the first word is a node, and may be the only one
    )
    verb.set_defaults(first_node="")
    verb.add_argument(
        "--weights",
        metavar="MODEL",
        default="",
        help="the weights of this model: a Hugging Face id, of which one machine has all in its cache, or a folder, the same on"
        " each machine ('~/DIR' in quotes: below each one's own home). Nothing is fetched from the network",
    )
    verb.add_argument(
        "--revision",
        metavar="REV",
        default="",
        help="commit, branch or tag of the model (default: what main is where the weights are taken from)",
    )
    verb.add_argument(
        "--hub",
        metavar="[NODE=]DIR",
        dest="hubs",
        action="append",
        default=[],
        help="the folder of the Hugging Face cache, of all machines or of one; may be repeated (default: each one's own, by HF_HUB_CACHE"
        " or HF_HOME)",
    )
    verb.add_argument(
        "--from",
        metavar="NODE",
        dest="source",
        default="",
        help="the machine whose engine has the image (default: this one), and that the weights are taken from (default: the first"
        " that has all of them)",
    )
    verb.add_argument(
        "--address",
        metavar="NODE=ADDRESS",
        dest="addresses",
        action="append",
        default=[],
        help="reach this node at this address when another machine sends to it, and at no other; relay: through this machine. May be"
        " repeated (default: the fastest that leads there)",
    )
    verb.add_argument(
        "--force",
        action="store_true",
        help="take the name of another image; that one stays under a dated name",
    )
    verb.add_argument(
        "--dry-run",
        action="store_true",
        help="ask the nodes, say what would be sent on which path and run there, and send nothing",
    )


def ship(words: argparse.Namespace, setting: Setting) -> Result:
    """Ship an image, weights, or both; exit status 5 if a node has not got them, 6 if what it got is not what was sent."""
    from vllm_graft.report.shipment import render_shipment, render_shipment_failures

    names: tuple[str, ...] = (*filter(None, (words.first_node,)), *words.nodes)
    if not names:
        raise RequestError(
            "ship what, and where?" if not words.image else f"ship {words.image} where?",
            remedy="write IMAGE NODE, or --weights MODEL NODE: nodes are the machines that are to have it, as behind ssh",
        )
    if not words.weights and (words.hubs or words.revision):
        raise RequestError(
            "--hub and --revision say nothing of an image",
            remedy="leave them out, or add --weights MODEL",
        )
    _refuse_others(words, names)
    shipment = Shipment(image=_image(words, names, setting) if words.image else None)
    if words.weights:
        try:
            shipment = Shipment(image=shipment.image, weights=_weights(words, names, setting))
        except GraftError:  # what was done before is not kept back
            setting.err.write(render_shipment(shipment, "text") if shipment.image else "")
            raise
    setting.err.write(render_shipment_failures(shipment))
    return render_shipment(shipment, setting.form), _status(shipment.codes)


def _refuse_others(words: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Refuse what is said of a machine that has no part in this: a name that is written wrong would be passed over."""
    ats = [place for place, letter in enumerate(words.image) if letter == "@"]
    part = {*names, words.source, *(words.image[at + 1 :] for at in ats), LOCALHOST}
    for word, texts in (("--hub", words.hubs), ("--address", words.addresses)):
        for text in texts:
            node = text.rpartition("=")[0]
            if node and node not in part:
                raise RequestError(
                    f"{word} {text} names {node}, which is none of the machines that this is about",
                    remedy="write it as the node is written among the others, or take it out",
                )


def _image(words: argparse.Namespace, names: tuple[str, ...], setting: Setting) -> ShipReceipt:
    from vllm_graft.values.node import parse_machine
    from vllm_graft.workflows.ship import ShipRequest, run_ship

    return run_ship(
        ShipRequest(
            image=words.image,
            nodes=tuple(parse_machine(each, each) for each in names),
            source=parse_machine(words.source, words.source) if words.source else None,
            addresses=_addresses(words.addresses),
            force=words.force,
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )


def _weights(words: argparse.Namespace, names: tuple[str, ...], setting: Setting) -> WeightsReceipt:
    from vllm_graft.values.node import parse_machine
    from vllm_graft.values.weights import parse_model_name
    from vllm_graft.workflows.ship_weights import WeightsRequest, ship_weights

    return ship_weights(
        WeightsRequest(
            name=parse_model_name(words.weights, words.revision, str(Path.cwd())),
            nodes=tuple(dict.fromkeys(parse_machine(each, each) for each in names)),
            sources=(parse_machine(words.source, words.source),) if words.source else (),
            hubs=_hubs(words.hubs),
            addresses=_addresses(words.addresses),
            dry_run=words.dry_run,
        ),
        environment=setting.environment,
        console=setting.console,
    )


def _hubs(texts: Sequence[str]) -> Mapping[str, str]:
    from vllm_graft.run.machines import name_of
    from vllm_graft.values.node import parse_machine

    found: dict[str, str] = {}
    for text in texts:
        node, is_named, place = text.rpartition("=")
        if not place.startswith(("/", "~/")) or "\n" in place:
            raise RequestError(
                f"no folder of a cache: {text!r}",
                remedy="write --hub /PLACE, --hub '~/PLACE' or --hub NODE=/PLACE: the folder that holds models--ORG--NAME",
            )
        found[name_of(parse_machine(node, text)) if is_named else ""] = place.rstrip("/")
    return found


def _addresses(texts: Sequence[str]) -> Mapping[str, str]:
    from vllm_graft.values.node import parse_node

    found: dict[str, str] = {}
    for text in texts:
        node, _, address = text.rpartition("=")
        if not node or _ADDRESS.fullmatch(address) is None:
            raise RequestError(
                f"no address of a node: {text!r}",
                remedy="write --address NODE=192.168.100.11, or --address NODE=relay",
            )
        found[parse_node(node, text).name] = address
    return found


def _status(codes: tuple[str, ...]) -> int:
    if not codes:
        return 0
    return 6 if any(code.startswith("E6") for code in codes) else 5
