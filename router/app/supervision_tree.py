"""The supervision tree of one router: its children, their order and their restart rules. Building it starts nothing."""

from __future__ import annotations

from functools import cached_property

from router.app.acks_subscription import build_acks_subscription
from router.app.admin import build_admin_station
from router.app.app_context import AppContext
from router.app.consumer_child import ConsumerChild, DrainDeadline
from router.app.decide_subscription import build_answers, build_decide_rules, build_decide_subscription
from router.app.ingress_server import build_ingress_server
from router.app.live_requests import build_live_requests
from router.app.provider_server import ProviderServer
from router.app.results_subscription import build_results_subscription
from router.config import Settings
from router.core.message import Message, Reply
from router.delivery.answers import Answers
from router.delivery.listen import Listener
from router.delivery.settle import Answer
from router.operations.deadletters.depth import DepthGauge
from router.operations.observability import Metrics, ReadinessCheck
from router.operations.supervision import Child, Helper, Intensity, Strategy, Supervisor, helper_states
from router.services.alerts import Alerts
from router.services.consumer_metrics import ConsumerMetrics
from router.services.partition import taken_stream, taken_subject
from router.services.topology_monitor import TopologyMonitor
from router.services.workers import Workers

OFTEN = Intensity(5, 30)


def _drop_answer(_: Message, __: Reply) -> None:
    """Ignore the reply: workers do not wait for one."""


class ConsumerChildren:
    """The consumers of this process. There is one for acks only where the settings enable it."""

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

    def get_all(self) -> tuple[ConsumerChild, ...]:
        return (self.decide, self.results) if self.acks is None else (self.decide, self.results, self.acks)

    def find_newest_ns(self, durable: str) -> int:
        """Stream time (ns) of the message that a durable settled last."""
        return next((child.observer.newest_ns for child in self.get_all() if child.durable == durable), 0)


class SupervisionTree:
    """Draws the tree, and holds what the children share for the life of the process."""

    def __init__(self, context: AppContext, monitor: TopologyMonitor, children: ConsumerChildren) -> None:
        self._context = context
        self._monitor = monitor
        self._consumers = children
        self._workers = Workers(context.metrics, context.alerts, serves=context.policies.has_tenant)
        self._drain_deadline = DrainDeadline(context.settings.drain)

    @cached_property
    def _answers(self) -> Answers:
        """Created once: a restarted child must still know which inbox waits for which answer."""
        return build_answers(self._context.settings, self._context.connection, self._context.metrics)

    def tree(self, http: Child | None) -> Supervisor:
        """The tree, in the order of starts; it stops in reverse. Without `http` a parent serves the pages."""
        children: list[Child | Supervisor] = [http] if http is not None else []
        children.append(Child("policies", self._context.live_policies.run))
        children.append(Child("extensions", self._context.live_extensions.run))
        helpers = [Helper("topology", self._monitor.run), Helper("dead_letters", self._build_depth_gauge().run)]
        if self._context.settings.assignment.removal_every_ms:
            helpers.append(Helper("finished_assignments", self._context.finished.run))
        helpers.append(Helper("assignment_shares", self._context.assignment_shares.run))
        helpers.append(Helper("dead_letter_shares", self._context.dead_letter_shares.run))
        self._context.metrics.helper_failing.set_function(lambda: helper_states(helpers))
        children += [helper.child for helper in helpers]
        if self._context.settings.admin.enabled:
            children.append(Child("admin", build_admin_station(self._context).run))
        children.append(self._breaker_branch())
        children.append(self._decide_branch())
        children.append(self._family("results", self._consumer(self._consumers.results)))
        if self._consumers.acks is not None:
            children.append(self._family("acks", self._consumer(self._consumers.acks)))
        children.append(self._worker_listeners())
        if self._context.settings.providers.enabled:
            children.append(Child("providers", ProviderServer(self._context).run, shutdown_s=10.0))
        if self._context.settings.ingress.enabled:
            # The last child to start stops first: no new message arrives during the drain.
            children.append(Child("ingress", build_ingress_server(self._context).run))
        return Supervisor("router", tuple(children), Strategy.ONE_FOR_ONE, OFTEN)

    def _build_depth_gauge(self) -> DepthGauge:
        context = self._context
        letters, dlq = context.metrics.dead_letters_stored, context.settings.dlq
        return DepthGauge(context.jetstream, context.settings.streams.dlq.name, letters, context.metrics.subject, dlq.subject_pattern)

    def _decide_branch(self) -> Supervisor:
        reply = self._context.settings.reply
        consumer = self._consumer(self._consumers.decide, self._answer)
        if not (reply.listener and reply.confirm == "decision"):
            return self._family("decide", consumer)
        return Supervisor("decide", (Child("listener", self._run_listener), consumer), Strategy.REST_FOR_ONE, OFTEN)

    def _answer(self, message: Message, reply: Reply) -> None:
        self._answers.answer(message, reply)  # created at the first answer: `router tree` draws the tree without an event loop

    async def _run_listener(self) -> None:
        settings, child = self._context.settings, self._consumers.decide
        self._context.checks["listener"] = self._check_listener
        live = build_live_requests(self._context, self._answers, lambda: child.consumer, build_decide_rules(settings).limits)
        group = settings.decide.deliver_group
        stream, subject = taken_stream(settings).name, taken_subject(settings)
        await Listener(self._context.jetstream, stream, subject, self._answers, live=live, queue=group).run()

    def _check_listener(self) -> ReadinessCheck:
        """Before the listener hears every inbox, the answer to a request may go to the reply subject alone."""
        is_listening = self._answers.is_listening
        return ReadinessCheck(is_listening, "hears every request" if is_listening else "does not hear every request yet")

    def _worker_listeners(self) -> Supervisor:
        workers, connection = self._workers, self._context.connections.workers
        return self._family(
            "workers",
            Child("heartbeats", lambda: workers.receive_heartbeats(connection)),
            Child("dead_letters", lambda: workers.receive_dead_letters(connection)),
        )

    def _breaker_branch(self) -> Supervisor:
        shared = self._context.breakers.shared
        return self._family("breakers", Child("follow", shared.follow), Child("write", shared.write))

    def _consumer(self, child: ConsumerChild, answer: Answer = _drop_answer) -> Child:
        stop_s = self._context.settings.drain.hard_deadline_ms / 1000 + 2
        return Child("consumer", lambda: child.run(self._context, self._monitor, self._drain_deadline, answer), shutdown_s=stop_s)

    def _family(self, name: str, *children: Child) -> Supervisor:
        return Supervisor(name, children, Strategy.ONE_FOR_ONE, OFTEN)
