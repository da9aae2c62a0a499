# Everything that is sent is compared twice: before it gets its name, and afterwards, where vLLM will look for it.
"""Send a model's weights from one machine to another."""

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_graft.fleet.hop import Hop, hop_lost
from vllm_graft.fleet.weights.asking import ask_digest, ask_files, ask_staged, parse_files
from vllm_graft.fleet.weights.deciding import is_same, misplaced, other_reference
from vllm_graft.fleet.weights.layout import folder_of, shown, staged, stored
from vllm_graft.fleet.weights.sending import (
    arrived_otherwise,
    bytes_sent,
    give_rest,
    not_sent,
    place,
    prepare,
    remove_staged,
    rsync,
    take_rest,
)
from vllm_graft.run.console import Console
from vllm_graft.run.machines import Machine
from vllm_graft.run.process import talking_command
from vllm_graft.run.progress import Progress
from vllm_graft.run.send import Heard, send
from vllm_graft.values.amount import a_few, size
from vllm_graft.values.weights import SendingMeans, Weights, WeightsOnNode
from vllm_graft.workflows.find_weights import Holding, compare


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSender:
    """Sends the weights of one model."""

    weights: Weights
    roots: Mapping[str, str]
    """Machine → its folder of the model."""
    with_rsync: frozenset[str]
    """Machines that have one."""
    console: Console

    def send(self, hop: Hop, sender: Machine, to: Holding) -> WeightsOnNode:
        """Send what a machine lacks, and put it in its place.

        Raises:
            NodeError: E501 to E503, E507, E551, E553, E556, E558; what has arrived is kept for the next time.
            VerificationError: E610.
        """
        means = self.means(hop)
        node = to.machine.name
        # Asked anew: it may have been tried from another machine in between.
        to = compare(to.machine, to.found, self.weights)
        progress = Progress(
            console=self.console,
            about=f"{hop.sender} to {node}",
            over=hop.said,
            total=to.lack.size,
            had=to.had.size,
        )
        if to.lack.sent:
            self.console.tell(
                f"{hop.sender} sends {_files(to)} to {node} {hop.said}"
                + f"; {size(to.had.size)} of them are there already" * bool(to.had.size)
            )
            self._prepare(to)
            if means == "rsync":
                self._with_rsync(hop, sender, to, progress.at)
            else:
                self._as_a_stream(hop, sender, to, progress.at)
            self._compare_arrived(to)
        self._place(to)
        return WeightsOnNode(
            node=node,
            outcome="sent" if to.lack.sent else "already there",
            place=folder_of(to.found.root, self.weights.commit),
            source=hop.sender if to.lack.sent else "",
            path=hop.said if to.lack.sent else "",
            means=means if to.lack.sent else "",
            files=len(to.lack.sent),
            size=to.lack.size,
            seconds=progress.seconds,
            notes=notes_on(self.weights, to),
        )

    def means(self, hop: Hop) -> SendingMeans:
        """Give what carries the files on this path."""
        can = hop.kind != "relay" and {hop.sender, hop.receiver} <= self.with_rsync
        return "rsync" if can else "stream"

    def _prepare(self, to: Holding) -> None:
        root, commit = to.found.root, self.weights.commit
        if to.had.wrong:
            to.machine.run(remove_staged(root, to.had.wrong))
        answer = to.machine.run(prepare(root, commit, to.lack.sent))
        if not answer.passed:
            raise not_sent(answer, to.machine.name)

    def _with_rsync(self, hop: Hop, sender: Machine, to: Holding, heard: Heard) -> None:
        client = to.machine if hop.kind == "pull" else sender
        command = client.command(rsync(hop, self.roots[hop.sender], to.found.root))
        with talking_command(command, variables=client.variables) as talking:
            for said in talking.pieces():
                if (count := bytes_sent(said)) is not None:
                    heard(count)
            answer = talking.ended()
        if (error := hop_lost(answer, hop)) is not None:
            raise error
        if not answer.passed:
            raise not_sent(answer, to.machine.name)

    def _as_a_stream(self, hop: Hop, sender: Machine, to: Holding, heard: Heard) -> None:
        before = 0
        for file in to.lack.sent:
            path = stored(file, self.weights.commit)
            had = to.had.sizes.get(path, 0)
            if had == file.size:
                continue
            if had and not self._is_beginning(sender, to, path, had):
                to.machine.run(remove_staged(to.found.root, [path]))
                had = 0

            def heard_of_all(count: int, before: int = before) -> None:
                heard(before + count)

            answer = send(
                hop,
                (sender, to.machine),
                (give_rest(self.roots[hop.sender], path, had), take_rest(to.found.root, path)),
                heard_of_all,
            )
            if not answer.passed:
                raise not_sent(answer, to.machine.name)
            before += file.size - had

    def _is_beginning(self, sender: Machine, to: Holding, path: str, size: int) -> bool:
        """Tell whether what has arrived of a file is what it begins with."""
        there = to.machine.run(ask_digest(staged(to.found.root, path), size))
        here = sender.run(ask_digest(f"{self.roots[sender.name]}/{path}", size))
        return here.passed and here.stdout == there.stdout

    def _compare_arrived(self, to: Holding) -> None:
        commit = self.weights.commit
        paths = {stored(file, commit): file for file in to.lack.sent}
        found = parse_files(to.machine.run(ask_staged(to.found.root, paths)))
        wrong = [path for path, file in paths.items() if not is_same(file, found.get(path))]
        if wrong:
            to.machine.run(remove_staged(to.found.root, wrong))
            raise arrived_otherwise(wrong, to.machine.name)

    def _place(self, to: Holding) -> None:
        root, commit = to.found.root, self.weights.commit
        files = (to.lack.files, to.lack.sent)
        answer = to.machine.run(place(self.weights, root, to.found.owner, files))
        if not answer.passed:
            raise not_sent(answer, to.machine.name)
        paths = [shown(file, commit) for file in self.weights.files]
        found = parse_files(to.machine.run(ask_files(root, paths)))
        if wrong := misplaced(self.weights, found):
            raise arrived_otherwise(wrong, to.machine.name)


def _files(to: Holding) -> str:
    number = len(to.lack.sent)
    return f"{number} file{'s' * (number != 1)}, {size(to.lack.size)},"


def notes_on(weights: Weights, to: Holding) -> tuple[str, ...]:
    """Say what else changes, or changed, on a machine."""
    found: list[str] = []
    if to.lack.replaced:
        found.append(f"had another content there before: {a_few(to.lack.replaced)}")
    if told := other_reference(to.found, weights):
        found.append(told)
    return tuple(found)
