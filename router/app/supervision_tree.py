"""The supervision tree of one router: its children, their order and their restart rules. Building it starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from router.app.admin import build_admin_server
from router.app.app_context import AppContext
from router.app.consumer_child import ConsumerChild, DrainDeadline
from router.app.decide_subscription import build_answers, build_decide_rules
from router.app.joined_subscription import JoinedSubscription
from router.app.request_servers import build_ingress_server, build_provider_server
from router.config import DECIDE, Settings
from router.core.message import Message, Reply
from router.delivery.answers import Answers
from router.delivery.api import JetStream
from router.delivery.listen import Listener
from router.delivery.read_ahead import ReadAhead
from router.delivery.settle import Answer
from router.operations.deadletters.depth import DepthGauge
from router.operations.observability import Metrics, ReadinessCheck
from router.operations.supervision import Child, Helper, Intensity, Strategy, Supervisor, helper_states
from router.services.alerts import Alerts
from router.services.live_requests import build_live_requests
from router.services.topology_monitor import TopologyMonitor
from router.services.workers import Workers

OFTEN = Intensity(5, 30)


def _drop_answer(_: Message, __: Reply) -> None:
    """Ignore the reply: workers do not wait for one."""


class ConsumerChildren:
    """The consumers of this process: one for each subscription that the settings enable."""

    def __init__(self, settings: Settings, metrics: Metrics, alerts: Alerts, joined: Sequence[JoinedSubscription]) -> None:
        enabled = (one for one in joined if one.spec.read_section(settings).is_enabled)
        self.children = tuple(ConsumerChild(one, settings, metrics, alerts) for one in enabled)

    def find_newest_ns(self, durable: str) -> int:
        """Stream time (ns) of the message that a durable settled last."""
        return next((child.observer.newest_ns for child in self.children if child.durable == durable), 0)


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
            children.append(Child("admin", build_admin_server(self._context).run))
        children.append(self._breaker_branch())
        children += map(self._consumer_branch, self._consumers.children)
        children.append(self._worker_listeners())
        if self._context.settings.providers.enabled:
            children.append(Child("providers", build_provider_server(self._context).run, shutdown_s=10.0))
        if self._context.settings.ingress.enabled:
            # The last child to start stops first: no new message arrives during the drain.
            children.append(Child("ingress", build_ingress_server(self._context).run))
        return Supervisor("router", tuple(children), Strategy.ONE_FOR_ONE, OFTEN)

    def _build_depth_gauge(self) -> DepthGauge:
        context = self._context
        stream, letters, dlq = context.settings.streams.dlq.name, context.metrics.dead_letters_stored, context.settings.dlq
        return DepthGauge(context.jetstream, stream, letters, context.metrics.subject, dlq.subject_pattern, infos=context.infos)

    def _consumer_branch(self, child: ConsumerChild) -> Supervisor:
        spec, reply = child.joined.spec, self._context.settings.reply
        consumer = self._consumer(child, self._answer if spec.is_answered else _drop_answer)
        if not (spec.is_answered and reply.listener and reply.confirm == "decision"):
            return self._family(spec.name, consumer)
        listener = Child("listener", lambda: self._run_listener(child))
        return Supervisor(spec.name, (listener, consumer), Strategy.REST_FOR_ONE, OFTEN)

    def _answer(self, message: Message, reply: Reply) -> None:
        self._answers.answer(message, reply)  # created at the first answer: `router tree` draws the tree without an event loop

    async def _run_listener(self, child: ConsumerChild) -> None:
        context, settings = self._context, self._context.settings
        context.checks["listener"] = self._check_listener
        live = build_live_requests(
            settings,
            metrics=context.metrics,
            alerts=context.alerts,
            marks=context.live_marks,
            answers=self._answers,
            consumer=lambda: child.consumer,
            limits=build_decide_rules(settings).limits,
        )
        stream, decide = DECIDE.read_stream(settings).name, settings.decide
        ahead = ReadAhead(JetStream(context.connections.workers, settings.nats.js_domain), stream)
        await Listener(
            context.jetstream,
            stream,
            decide.taken_subject,
            self._answers,
            live=live,
            queue=decide.deliver_group,
            ahead=ahead,
            infos=context.infos,
        ).run()

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
