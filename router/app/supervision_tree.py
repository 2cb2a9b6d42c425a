"""The supervision tree of one router: which children there are, in which order, by which rules. Building one starts nothing."""

from __future__ import annotations

from functools import cached_property

from router.app.acks_subscription import build_acks_subscription
from router.app.admin import build_admin_station
from router.app.alerts import Alerts
from router.app.app_context import AppContext
from router.app.consumer_child import ConsumerChild, DrainDeadline
from router.app.consumer_metrics import ConsumerMetrics
from router.app.decide_subscription import build_answers, build_decide_rules, build_decide_subscription
from router.app.ingress_server import build_ingress_server
from router.app.live_requests import build_live_requests
from router.app.partition import taken_stream, taken_subject
from router.app.provider_server import ProviderServer
from router.app.results_subscription import build_results_subscription
from router.app.topology_monitor import TopologyMonitor
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


class ConsumerChildren:
    """The subscriptions of this process. The acks' is there only when it is enabled."""

    def __init__(self, settings: Settings, metrics: Metrics, alerts: Alerts) -> None:
        streams = settings.streams

        def observer(durable: str, *, answers: bool = False) -> ConsumerMetrics:
            return ConsumerMetrics(metrics, alerts, durable, settings, answers=answers)

        decide, results, acks = (config.durable for config in (settings.decide, settings.results, settings.acks))
        self.decide = ConsumerChild(taken_stream(settings).name, settings.decide, observer(decide, answers=True), build_decide_subscription)
        self.results = ConsumerChild(streams.results.name, settings.results, observer(results), build_results_subscription)
        self.acks = (
            ConsumerChild(streams.acks.name, settings.acks, observer(acks), build_acks_subscription) if settings.acks.enabled else None
        )

    def all(self) -> tuple[ConsumerChild, ...]:
        return (self.decide, self.results) if self.acks is None else (self.decide, self.results, self.acks)

    def newest(self, durable: str) -> int:
        """Stream time (ns) of the message that a durable settled last."""
        return next((station.observer.newest_ns for station in self.all() if station.durable == durable), 0)


class SupervisionTree:
    """The children, and what they share while the process lives."""

    def __init__(self, context: AppContext, monitor: TopologyMonitor, children: ConsumerChildren) -> None:
        self._context = context
        self._monitor = monitor
        self._consumers = children
        self._workers = Workers(context.metrics, context.alerts, serves=context.policies.has_tenant)
        self._drain_deadline = DrainDeadline(context.settings.drain)

    @cached_property
    def _answers(self) -> Answers:
        """One for the whole life of the process: a restarted child must not forget who asked."""
        return build_answers(self._context.settings, self._context.connection, self._context.metrics)

    def tree(self, http: Child | None) -> Supervisor:
        """First what is looked at, then what works; the end runs the other way. Without `http`, somebody else is looked at."""
        children: list[Child | Supervisor] = [http] if http is not None else []
        children.append(Child("policies", self._context.live_policies.run))
        children.append(Child("extensions", self._context.live_extensions.run))
        helpers = [Helper("topology", self._monitor.run), Helper("dead_letters", self._depth().run)]
        if self._context.settings.assignment.removal_every_ms:
            helpers.append(Helper("finished_assignments", self._context.finished.run))
        helpers.append(Helper("assignment_shares", self._context.assignment_shares.run))
        helpers.append(Helper("dead_letter_shares", self._context.letter_shares.run))
        self._context.metrics.helper_failing.set_function(lambda: helper_states(helpers))
        children += [helper.child for helper in helpers]
        if self._context.settings.admin.enabled:
            children.append(Child("admin", build_admin_station(self._context).run))
        children.append(self._breakers())
        children.append(self._decide())
        children.append(self._family("results", self._lane(self._consumers.results)))
        if self._consumers.acks is not None:
            children.append(self._family("acks", self._lane(self._consumers.acks)))
        children.append(self._heard())
        if self._context.settings.providers.enabled:
            children.append(Child("providers", ProviderServer(self._context).run, shutdown_s=10.0))
        if self._context.settings.ingress.enabled:
            children.append(Child("ingress", build_ingress_server(self._context).run))  # the last: it stops first, and takes nothing more
        return Supervisor("router", tuple(children), Strategy.ONE_FOR_ONE, OFTEN)

    def _depth(self) -> DepthGauge:
        context = self._context
        letters, dlq = context.metrics.dead_letters_stored, context.settings.dlq
        return DepthGauge(context.jetstream, context.settings.streams.dlq.name, letters, context.metrics.subject, dlq.subject_pattern)

    def _decide(self) -> Supervisor:
        reply = self._context.settings.reply
        consumer = self._lane(self._consumers.decide, self._answer)
        if not (reply.listener and reply.confirm == "decision"):
            return self._family("decide", consumer)
        return Supervisor("decide", (Child("listener", self._listen), consumer), Strategy.REST_FOR_ONE, OFTEN)

    def _answer(self, message: Message, reply: Reply) -> None:
        self._answers.answer(message, reply)  # not before a loop runs: a tree may be drawn without one

    async def _listen(self) -> None:
        settings, station = self._context.settings, self._consumers.decide
        live = build_live_requests(self._context, self._answers, lambda: station.consumer, build_decide_rules(settings).limits)
        group = settings.decide.deliver_group
        stream, subject = taken_stream(settings).name, taken_subject(settings)
        await Listener(self._context.jetstream, stream, subject, self._answers, live=live, queue=group).run()

    def _heard(self) -> Supervisor:
        workers, connection = self._workers, self._context.connections.workers
        return self._family(
            "workers",
            Child("heartbeats", lambda: workers.hear_beats(connection)),
            Child("dead_letters", lambda: workers.hear_letters(connection)),
        )

    def _breakers(self) -> Supervisor:
        shared = self._context.breakers.shared
        return self._family("breakers", Child("follow", shared.follow), Child("write", shared.write))

    def _lane(self, station: ConsumerChild, answer: Answer = _nobody_asked) -> Child:
        stop_s = self._context.settings.drain.hard_deadline_ms / 1000 + 2
        return Child("consumer", lambda: station.run(self._context, self._monitor, self._drain_deadline, answer), shutdown_s=stop_s)

    def _family(self, name: str, *children: Child) -> Supervisor:
        return Supervisor(name, children, Strategy.ONE_FOR_ONE, OFTEN)
