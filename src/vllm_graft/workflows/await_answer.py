# Watched from all sides while it comes up: each node's container by a watcher of its own, and the endpoint by one that asks. The
# first news that decides counts, so a rank that died is told within seconds, also while a request waits for its answer.
"""Wait until a deployment answers correctly, or say why it never will."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from vllm_graft.cluster.containers import (
    FoundContainer,
    look_at,
    parse_containers,
    parse_log,
    read_log,
    says_nothing_of_it,
    unlisted,
)
from vllm_graft.cluster.last_words import first_ended, known_remedy, told_together
from vllm_graft.cluster.launch import container_name
from vllm_graft.cluster.ready import (
    COMPLETIONS_PATH,
    MODELS_PATH,
    NotServed,
    completion_request,
    read_completion,
    read_models,
)
from vllm_graft.errors import GraftError, NodeError, VerificationError
from vllm_graft.image.engine import Engine
from vllm_graft.rehearse.log_line import harmless
from vllm_graft.run.clock import Stopwatch, wait
from vllm_graft.run.console import Console
from vllm_graft.run.endpoint import PATIENCE, UNREACHED, Asking, Endpoint
from vllm_graft.run.process import run_command
from vllm_graft.run.watching import Watch, watched
from vllm_graft.values.deployment import Completion, Deployment, Member
from vllm_graft.workflows.fleet_engines import FleetEngines
from vllm_graft.workflows.read_ranks import read_ranks

_EVERY = timedelta(seconds=1)
_PATIENCE = timedelta(seconds=20)
"""That a node has to say how its container is."""
_LOST = timedelta(seconds=30)
"""Without a word from a node, after which it counts as lost: an engine that is restarted takes some."""
_SETTLING = timedelta(seconds=2)
"""That ranks have to die of one another: then the first of them is told, not the one that was looked at first."""
_TELLING = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """How the container of a member is."""

    member: Member
    found: FoundContainer | None = None
    """None: it is gone, or its node did not say."""
    error: GraftError | None = None


_News = _Look | Completion | NotServed


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A deployment that is coming up."""

    deployment: Deployment
    fleet: FleetEngines
    endpoint: Endpoint
    limit: timedelta
    console: Console
    clock: Stopwatch = field(default_factory=Stopwatch)
    _asking: Asking = field(init=False)
    _early: str = ""
    """Why the last answer was none yet."""
    _seen: dict[int, timedelta] = field(default_factory=dict[int, timedelta])
    """When each rank was last seen."""
    _told: timedelta = timedelta()

    def answer(self) -> Completion:
        """Wait for a correct answer.

        Raises:
            NodeError: E575, a rank ended; E576, a node was lost.
            VerificationError: E620, it answers wrongly; E621, it did not in time.
        """
        asking = self._asking = Asking(self.endpoint)
        watchers: list[Callable[[Watch[_News]], None]] = [
            lambda watch: _ask(watch, asking, self.deployment.model.name)
        ]
        watchers += [self._watcher(member) for member in self.deployment.members]
        with watched(watchers) as watch:
            try:
                return self._decide(watch)
            finally:
                asking.leave()

    def _watcher(self, member: Member) -> Callable[[Watch[_News]], None]:
        engine = self.fleet.engines[member.node]
        return lambda watch: self._look_on(watch, member, engine)

    def _look_on(self, watch: Watch[_News], member: Member, engine: Engine) -> None:
        while not watch.is_over:
            watch.say(self._look(member, engine))
            watch.pause(_EVERY)

    def _look(self, member: Member, engine: Engine) -> _Look:
        name = container_name(self.deployment.name, member.rank)
        try:
            answer = run_command(
                look_at(engine, (name,), _PATIENCE), variables=self.fleet.variables
            )
            if not answer.passed and not says_nothing_of_it(answer):
                raise unlisted(answer, engine)
            return _Look(member=member, found=next(iter(parse_containers(answer)), None))
        except GraftError as error:
            return _Look(member=member, error=error)

    def _decide(self, watch: Watch[_News]) -> Completion:
        while True:
            match watch.next(min(_EVERY, self.limit - self.clock.passed)):
                case Completion() as answered:
                    return answered
                case NotServed(is_early=True) as early:
                    self._early = early.why
                case NotServed() as wrong:
                    self._refuse(wrong)
                case _Look() as look:
                    self._judge(look)
                case None:
                    pass
            if self.clock.passed >= self.limit:
                raise self._late()
            self._tell()

    def _judge(self, look: _Look) -> None:
        rank = look.member.rank
        if look.error is None:
            self._seen[rank] = self.clock.passed
            if look.found is None or not look.found.is_alive:
                raise self._ended()
            return
        if self.clock.passed - self._seen.get(rank, timedelta()) >= _LOST:
            raise NodeError(
                f"{look.member.node} was lost while {self.deployment.name} started: {look.error.what}",
                remedy=look.error.remedy,
                code="E576",
            )

    def _ended(self) -> GraftError:
        """Say which rank ended, once those have that end of it."""
        wait(_SETTLING)
        ranks = read_ranks(self.deployment, self.fleet)
        first = first_ended(ranks)
        after = round(self.clock.passed.total_seconds())
        what = first.told if first is not None else "a rank ended and came back"
        return NodeError(
            f"{what}, {after} s after the start, before {self.deployment.name} answered:"
            f"{told_together(ranks, first)}",
            remedy=known_remedy(ranks, first)
            or "the first error of the rank that is named first says why; mend it, then run this again",
            code="E575",
        )

    def _refuse(self, wrong: NotServed) -> None:
        """Raise, since an answer is wrong: that of an engine that is just dying too."""
        wait(_SETTLING)
        ranks = read_ranks(self.deployment, self.fleet)
        if first_ended(ranks) is not None:
            raise self._ended()
        raise VerificationError(
            f"{self.deployment.name} runs on all its nodes, and does not serve: {wrong.why}{told_together(ranks, ranks[0])}",
            remedy=known_remedy(ranks, ranks[0])
            or "health is no proof of a model: see the lines above, and what is said of flags and weights there",
            code="E620",
        )

    def _late(self) -> GraftError:
        ranks = read_ranks(self.deployment, self.fleet)
        minutes = self.limit.total_seconds() / 60
        place = f"{self.endpoint.host}:{self.endpoint.port} of {self.deployment.head.node}"
        doing = self._early or f"nobody listens at {place}"
        if self._asking.asked:
            doing = f"{self._asking.asked} was asked and has not answered"
        return VerificationError(
            f"{self.deployment.name} did not answer within {minutes:g} minutes: {doing}"
            f"{told_together(ranks, ranks[0])}",
            remedy="a first start compiles kernels and may take far longer than the next: give it more with --time-limit MINUTES",
            code="E621",
        )

    def _tell(self) -> None:
        """Say now and then what the head does."""
        if self.clock.passed - self._told < _TELLING:
            return
        self._told = self.clock.passed
        head = self.deployment.head
        name = container_name(self.deployment.name, head.rank)
        try:
            command = read_log(self.fleet.engines[head.node], name, 1)
            lines = parse_log(run_command(command, variables=self.fleet.variables))
        except GraftError:
            return
        seconds = round(self.clock.passed.total_seconds())
        self.console.tell(
            f"{seconds} s: {head.node} | {harmless(lines[-1]) if lines else '(nothing said yet)'}"
        )


def _ask(watch: Watch[_News], asking: Asking, name: str) -> None:
    """Ask until there is an answer, right or wrong; why there is none yet is told too."""
    while not watch.is_over:
        news = _asked_once(asking, name)
        if news is not None:
            watch.say(news)
        if isinstance(news, Completion) or (news is not None and not news.is_early):
            return
        watch.pause(_EVERY)


def _asked_once(asking: Asking, name: str) -> Completion | NotServed | None:
    """Ask once; None where nobody listens."""
    try:
        model = read_models(asking.ask(MODELS_PATH), name)
    except UNREACHED:
        return None
    if isinstance(model, NotServed):
        return model
    try:
        reply = asking.ask(COMPLETIONS_PATH, completion_request(model))
    except TimeoutError:
        return NotServed(why=f"{COMPLETIONS_PATH} gave no answer in {PATIENCE:g} s", is_early=False)
    except UNREACHED as error:
        why = f"{COMPLETIONS_PATH} was asked, and ended without an answer ({error!r})"
        return NotServed(why=why, is_early=True)
    return read_completion(reply, model)
