"""The supervision tree of one router: its children, their order and their restart rules. Building
it starts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from router.config import DECIDE, Settings, list_standby
from router.core.message import Message, Reply
from router.decide.partitions.monitor import PartitionMonitor
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import ConsumerSpec
from router.operate.alerts import Alerts
from router.operate.dead_letters.depth import DepthGauge
from router.operate.topology.monitor import TopologyMonitor
from router.policies.model import SharedRates
from router.policies.rate_leases import RateLeases
from router.process.observability import Metrics
from router.process.supervision import Child, Helper, Intensity, Strategy, Supervisor, helper_states
from router.serve.admin import build_admin_server
from router.serve.app_context import AppContext
from router.serve.consumer_child import ConsumerChild, DrainDeadline, JoinedSubscription
from router.serve.decide_branch import DecideBranch
from router.serve.request_servers import (
    build_ingress_server,
    build_provider_server,
    build_unfinished_invocations,
)
from router.work.workers import Workers

OFTEN = Intensity(5, 30)


def _drop_answer(_: Message, __: Reply) -> None:
    """Ignore the reply: workers do not wait for one."""


class ConsumerChildren:
    """The consumers of this process: one for each subscription that the settings enable, and for
    each partition that it stands by for.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        alerts: Alerts,
        joined: Sequence[JoinedSubscription],
    ) -> None:
        enabled = [member for member in joined if member.spec.read_section(settings).is_enabled]
        self.children = tuple(
            ConsumerChild(member, settings, metrics, alerts) for member in enabled
        )
        self.standby = tuple(
            ConsumerChild(
                member, other, metrics, alerts, f"{other.decide.durable}-p{other.decide.partition}"
            )
            for member in enabled
            if member.spec.name == DECIDE.name
            for other in list_standby(settings)
        )

    def find_label(self, spec: ConsumerSpec) -> str:
        """A durable's name in metrics."""
        child = self._find(spec)
        return child.label if child is not None else spec.durable

    def find_newest_ns(self, spec: ConsumerSpec) -> int:
        """Stream time (ns) of the message that a durable settled last."""
        child = self._find(spec)
        return child.observer.newest_ns if child is not None else 0

    def _find(self, spec: ConsumerSpec) -> ConsumerChild | None:
        children = (*self.children, *self.standby)
        return next(
            (
                consumer
                for consumer in children
                if (consumer.stream, consumer.durable) == (spec.stream, spec.durable)
            ),
            None,
        )


class SupervisionTree:
    """Draws the tree, and holds what the children share for the life of the process."""

    def __init__(
        self, context: AppContext, monitor: TopologyMonitor, children: ConsumerChildren
    ) -> None:
        self._context = context
        self._monitor = monitor
        self._consumers = children
        self._workers = Workers(context.metrics, context.alerts, serves=context.policies.has_tenant)
        self._drain_deadline = DrainDeadline(context.settings.drain)

    def tree(self, http: Child | None) -> Supervisor:
        """The tree, in the order of starts; it stops in reverse. Without `http` a parent serves the
        pages.
        """
        children: list[Child | Supervisor] = [http] if http is not None else []
        children.append(Child("policies", self._context.followed_policies.run))
        children.append(Child("extensions", self._context.followed_extensions.run))
        children.append(Child("prices", self._context.followed_prices.run))
        helpers = [
            Helper("topology", self._monitor.run),
            Helper("dead_letters", self._build_depth_gauge().run),
        ]
        if self._context.settings.assignment.removal_every_ms:
            helpers.append(Helper("finished_assignments", self._context.finished.run))
        helpers.append(Helper("violations", self._record_violations))
        helpers.append(Helper("assignment_shares", self._context.assignment_shares.run))
        helpers.append(Helper("dead_letter_shares", self._context.dead_letter_shares.run))
        helpers.append(Helper("places", self._context.stored_places.run))
        if self._context.settings.usage.enabled:
            helpers.append(
                Helper("unfinished_invocations", build_unfinished_invocations(self._context).run)
            )
        if self._context.settings.decide.partition is not None:
            helpers.append(Helper("partitions", self._build_partition_monitor().run))
        self._context.metrics.helper_failing.set_function(lambda: helper_states(helpers))
        children += [helper.child for helper in helpers]
        if self._context.settings.admin.enabled:
            children.append(Child("admin", build_admin_server(self._context).run))
        children.append(self._breaker_branch())
        children.append(self._measurement_branch())
        children.append(self._canary_branch())
        children.append(self._budget_branch())
        if self._context.rates is not None:
            children.append(Child("rate_limits", self._build_rate_leases(self._context.rates).run))
        children += map(self._consumer_branch, self._consumers.children)
        children += map(self._standby_branch, self._consumers.standby)
        children.append(self._worker_listeners())
        if self._context.settings.providers.enabled:
            children.append(self._ratio_branch())
            children.append(
                Child("providers", build_provider_server(self._context).run, shutdown_s=10.0)
            )
        if self._context.settings.ingress.enabled:
            # The last child to start stops first: no new message arrives during the drain.
            children.append(Child("ingress", build_ingress_server(self._context).run))
        return Supervisor("router", tuple(children), Strategy.ONE_FOR_ONE, OFTEN)

    def _build_depth_gauge(self) -> DepthGauge:
        context = self._context
        stream, dead_letters, dlq = (
            context.settings.streams.dlq.name,
            context.metrics.dead_letters_stored,
            context.settings.dlq,
        )
        return DepthGauge(
            context.jetstream,
            stream,
            dead_letters,
            context.metrics.subject,
            dlq.subject_pattern,
            infos=context.infos,
        )

    async def _record_violations(self) -> None:
        """Beside the consumers: a connection that they do not use."""
        context = self._context
        await context.violations.run(
            JetStream(context.connections.workers, context.settings.nats.js_domain)
        )

    def _build_partition_monitor(self) -> PartitionMonitor:
        context = self._context
        return PartitionMonitor(
            context.settings, context.jetstream, context.metrics, context.alerts, context.infos
        )

    def _consumer_branch(self, child: ConsumerChild) -> Supervisor:
        if child.joined.spec.is_answered:
            branch = DecideBranch(self._context, self._monitor, child, self._drain_deadline)
            return Supervisor(
                child.joined.spec.name, branch.list_children(), Strategy.REST_FOR_ONE, OFTEN
            )
        return self._family(child.joined.spec.name, self._consumer(child))

    def _standby_branch(self, child: ConsumerChild) -> Supervisor:
        context = self._context.select_partition(child.settings)
        branch = DecideBranch(context, self._monitor, child, self._drain_deadline)
        name = f"{child.joined.spec.name}-p{child.settings.decide.partition}"
        return Supervisor(name, branch.list_standby_children(), Strategy.REST_FOR_ONE, OFTEN)

    def _worker_listeners(self) -> Supervisor:
        workers, connection = self._workers, self._context.connections.workers
        return self._family(
            "workers",
            Child("heartbeats", lambda: workers.receive_heartbeats(connection)),
            Child("dead_letters", lambda: workers.receive_dead_letters(connection)),
        )

    def _breaker_branch(self) -> Supervisor:
        shared = self._context.breakers.shared
        return self._family(
            "breakers", Child("follow", shared.follow), Child("write", shared.write)
        )

    def _measurement_branch(self) -> Supervisor:
        shared = self._context.shared_measurements
        return self._family(
            "measurements", Child("follow", shared.follow), Child("write", shared.write)
        )

    def _ratio_branch(self) -> Supervisor:
        shared = self._context.shared_ratios
        return self._family(
            "token_ratios", Child("follow", shared.follow), Child("write", shared.write)
        )

    def _canary_branch(self) -> Supervisor:
        canaries = self._context.canaries
        return self._family(
            "canaries",
            Child("follow", canaries.follow),
            Child("write", canaries.write),
            Child("judge", canaries.judge),
        )

    def _budget_branch(self) -> Supervisor:
        budgets = self._context.budgets
        return self._family(
            "budgets",
            Child("clock", budgets.clock.follow),
            Child("follow", budgets.followed.run),
            Child("leases", budgets.leases.run),
            Child("settlement", budgets.booking.run),
        )

    def _build_rate_leases(self, rates: SharedRates) -> RateLeases:
        context = self._context
        return RateLeases(
            rates,
            context.jetstream,
            context.settings.buckets.rate_limits.name,
            context.budgets.clock,
        )

    def _consumer(self, child: ConsumerChild) -> Child:
        stop_s = self._context.settings.drain.hard_deadline_ms / 1000 + 2
        return Child(
            "consumer",
            lambda: child.run(self._context, self._monitor, self._drain_deadline, _drop_answer),
            shutdown_s=stop_s,
        )

    def _family(self, name: str, *children: Child) -> Supervisor:
        return Supervisor(name, children, Strategy.ONE_FOR_ONE, OFTEN)
