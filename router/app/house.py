"""The supervision tree of one router: which children there are, in which order, by which rules. Building one starts nothing."""

from __future__ import annotations

from functools import cached_property

from router.app.acks_lane import acks_lane
from router.app.admin import admin_station
from router.app.alerts import Alerts
from router.app.decide_lane import decide_answers, decide_lane, decide_rules
from router.app.ground import Ground
from router.app.ingress import ingress_station
from router.app.lane_metrics import LaneMetrics
from router.app.live_requests import live_requests
from router.app.partition import taken_stream, taken_subject
from router.app.providers import ProviderStation
from router.app.results_lane import results_lane
from router.app.station import Ending, Station
from router.app.survey import Survey
from router.app.workers import Workers
from router.config import Settings
from router.deadletters.depth import DepthGauge
from router.delivery.answers import Answers
from router.delivery.listen import Listener
from router.delivery.settle import Answer
from router.message import Message, Reply
from router.observability import Metrics
from router.supervision import Child, Helper, Intensity, Strategy, Supervisor, helper_states

OFTEN = Intensity(5, 30)


def _nobody_asked(_: Message, __: Reply) -> None:
    """Workers report; they do not wait for an answer."""


class Stations:
    """The lanes of this process. The acks' is there only when it is enabled."""

    def __init__(self, settings: Settings, metrics: Metrics, alerts: Alerts) -> None:
        streams = settings.streams

        def observer(durable: str, *, answers: bool = False) -> LaneMetrics:
            return LaneMetrics(metrics, alerts, durable, settings, answers=answers)

        decide, results, acks = (config.durable for config in (settings.decide, settings.results, settings.acks))
        self.decide = Station(taken_stream(settings).name, settings.decide, observer(decide, answers=True), decide_lane)
        self.results = Station(streams.results.name, settings.results, observer(results), results_lane)
        self.acks = Station(streams.acks.name, settings.acks, observer(acks), acks_lane) if settings.acks.enabled else None

    def all(self) -> tuple[Station, ...]:
        return (self.decide, self.results) if self.acks is None else (self.decide, self.results, self.acks)

    def newest(self, durable: str) -> int:
        """Stream time (ns) of the message that a durable settled last."""
        return next((station.observer.newest_ns for station in self.all() if station.durable == durable), 0)


class House:
    """The children, and what they share while the process lives."""

    def __init__(self, ground: Ground, survey: Survey, stations: Stations) -> None:
        self._ground = ground
        self._survey = survey
        self._stations = stations
        self._workers = Workers(ground.metrics, ground.alerts, serves=ground.policies.has_tenant)
        self._ending = Ending(ground.settings.drain)

    @cached_property
    def _answers(self) -> Answers:
        """One for the whole life of the process: a restarted child must not forget who asked."""
        return decide_answers(self._ground.settings, self._ground.connection, self._ground.metrics)

    def tree(self, http: Child | None) -> Supervisor:
        """First what is looked at, then what works; the end runs the other way. Without `http`, somebody else is looked at."""
        children: list[Child | Supervisor] = [http] if http is not None else []
        children.append(Child("policies", self._ground.live_policies.run))
        children.append(Child("extensions", self._ground.extensions_in_force.run))
        helpers = [Helper("survey", self._survey.run), Helper("letters", self._depth().run)]
        if self._ground.settings.assignment.removal_every_ms:
            helpers.append(Helper("finished", self._ground.finished.run))
        helpers.append(Helper("assignment_shares", self._ground.assignment_shares.run))
        helpers.append(Helper("letter_shares", self._ground.letter_shares.run))
        self._ground.metrics.helper_failing.set_function(lambda: helper_states(helpers))
        children += [helper.child for helper in helpers]
        if self._ground.settings.admin.enabled:
            children.append(Child("admin", admin_station(self._ground).run))
        children.append(self._breakers())
        children.append(self._decide())
        children.append(self._family("results", self._lane(self._stations.results)))
        if self._stations.acks is not None:
            children.append(self._family("acks", self._lane(self._stations.acks)))
        children.append(self._heard())
        if self._ground.settings.providers.enabled:
            children.append(Child("providers", ProviderStation(self._ground).run, shutdown_s=10.0))
        if self._ground.settings.ingress.enabled:
            children.append(Child("ingress", ingress_station(self._ground).run))  # the last: it stops first, and takes nothing more
        return Supervisor("router", tuple(children), Strategy.ONE_FOR_ONE, OFTEN)

    def _depth(self) -> DepthGauge:
        ground = self._ground
        letters, dlq = ground.metrics.dead_letters_stored, ground.settings.dlq
        return DepthGauge(ground.jetstream, ground.settings.streams.dlq.name, letters, ground.metrics.subject, dlq.subject_pattern)

    def _decide(self) -> Supervisor:
        reply = self._ground.settings.reply
        consumer = self._lane(self._stations.decide, self._answer)
        if not (reply.listener and reply.confirm == "decision"):
            return self._family("decide", consumer)
        return Supervisor("decide", (Child("listener", self._listen), consumer), Strategy.REST_FOR_ONE, OFTEN)

    def _answer(self, message: Message, reply: Reply) -> None:
        self._answers.answer(message, reply)  # not before a loop runs: a tree may be drawn without one

    async def _listen(self) -> None:
        settings, station = self._ground.settings, self._stations.decide
        live = live_requests(self._ground, self._answers, lambda: station.consumer, decide_rules(settings).limits)
        group = settings.decide.deliver_group
        stream, subject = taken_stream(settings).name, taken_subject(settings)
        await Listener(self._ground.jetstream, stream, subject, self._answers, live=live, queue=group).run()

    def _heard(self) -> Supervisor:
        workers, connection = self._workers, self._ground.connections.workers
        return self._family(
            "workers",
            Child("heartbeats", lambda: workers.hear_beats(connection)),
            Child("hopeless", lambda: workers.hear_letters(connection)),
        )

    def _breakers(self) -> Supervisor:
        shared = self._ground.breakers.shared
        return self._family("breakers", Child("follow", shared.follow), Child("write", shared.write))

    def _lane(self, station: Station, answer: Answer = _nobody_asked) -> Child:
        stop_s = self._ground.settings.drain.hard_deadline_ms / 1000 + 2
        return Child("consumer", lambda: station.run(self._ground, self._survey, self._ending, answer), shutdown_s=stop_s)

    def _family(self, name: str, *children: Child) -> Supervisor:
        return Supervisor(name, children, Strategy.ONE_FOR_ONE, OFTEN)
