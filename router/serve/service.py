"""The whole router as a process: start, supervision tree, readiness, shutdown.

start   connect, topology, policies; then the tree, first child first
ready   connected, streams and consumers as declared, pulling, no consumer paused
end     the tree, last child first: the consumers drain, the listener unsubscribes, HTTP closes;
        then the connection
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from router.config import Settings
from router.config.connect import connect_by
from router.contracts.alert import CRITICAL, INFO, Alert
from router.core.errors import NoLeader
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.operate.alerts import Alerts
from router.operate.topology.declared_topology import declare_topology
from router.operate.topology.monitor import TopologyMonitor
from router.policies.model import PolicyTable
from router.process.memory import calm_collector, collections
from router.process.observability import Metrics, ReadinessCheck, events, logs, readiness_series
from router.process.observability.http import is_ready
from router.process.observability.loop_stalls import LoopStalls
from router.process.supervision import Child, Supervisor
from router.serve.app_context import AppContext, Connections, list_others
from router.serve.consumer_child import JoinedSubscription
from router.serve.contract.contract_document import ContractPages
from router.serve.subscriptions import JOINED
from router.serve.supervision_tree import ConsumerChildren, SupervisionTree
from router.shell.host import HeldConnection, ProcessHost, Told

log = logs.logger(__name__)

LEADER_WAIT_S = 0.5  # between two tries at the start


class Ready(Struct, frozen=True):
    """The addresses of a ready router; `http` is empty if a parent serves the pages."""

    nats_url: str
    http: str


class RouterService:
    """One router process. `run` serves until it is cancelled. `http` False: a parent serves its
    pages.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        policies_dir: Path | None = None,
        http: bool = True,
        subscriptions: Sequence[JoinedSubscription] = JOINED,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(
            settings.metrics.tenant_label_allowlist, settings.metrics.label_limit
        )
        self.policy_table = PolicyTable()
        self._seed = policies_dir or settings.policies.dir
        self._alerts = Alerts(settings.node_id, settings.alerts.every_ms / 1000)
        self._consumers = ConsumerChildren(settings, self.metrics, self._alerts, subscriptions)
        self._topology = declare_topology(
            settings, [subscription.spec for subscription in subscriptions]
        )
        self._monitor: TopologyMonitor | None = None
        self._context: AppContext | None = None
        self._connection: Connection | None = None
        self._host = ProcessHost()
        self._loop_stalls = LoopStalls()
        self._has_http = http
        self.metrics.ready.set_function(lambda: readiness_series(self.readiness()))

    async def run(self, on_ready: Callable[[Ready], None] = lambda _: None) -> None:
        """Serve.

        Raises Misconfigured or BrokerUnavailable when it cannot begin, SupervisionFailed or
        ConnectionStuck when it cannot go on.
        """
        log.info(events.ROUTER_STARTING, node_id=self.settings.node_id)
        nats, providers = self.settings.nats, self.settings.providers.enabled
        main = HeldConnection(self._connect, on_lost=self._on_lost, on_back=self._on_back)
        others = list_others(nats, self.metrics, providers=providers)
        try:
            async with self._host.hold(main, *others) as (first, second, *rest):
                await self._serve(Connections(first, second, *(rest or [first])), on_ready)
        finally:
            # Without a connection it has not begun, and the error says why.
            if self._connection is not None:
                log.info(events.ROUTER_STOPPED)

    async def _serve(self, connections: Connections, on_ready: Callable[[Ready], None]) -> None:
        monitor = self._monitor = self._build_monitor(
            JetStream(connections.main, self.settings.nats.js_domain)
        )
        await _wait_for_leader(monitor.ensure)
        context = self._build_context(monitor, connections)
        await context.followed_extensions.load()
        await context.followed_prices.load()
        await context.breakers.shared.load()
        await context.shared_measurements.load()
        await context.canaries.load()
        await context.stored_places.load()
        await context.budgets.followed.load()
        await _wait_for_leader(lambda: self._load_policies(context))
        with calm_collector(), self._loop_stalls.count():
            await self._host.run(
                self._tree(context, monitor),
                lambda: self._announce(on_ready),
                lambda: is_ready(self.readiness()),
            )

    async def _load_policies(self, context: AppContext) -> None:
        await context.followed_policies.load(self._seed)
        if not self.policy_table.get_all():
            log.warning(
                events.POLICY_WARNING,
                warning="no policy is loaded: every request will be answered policy_not_found",
            )

    def tree(self) -> Supervisor:
        """The supervision tree, for `router tree`; it starts nothing."""
        monitor = self._build_monitor(JetStream(Connection()))
        return self._tree(self._build_context(monitor), monitor)

    def _build_monitor(self, jetstream: JetStream) -> TopologyMonitor:
        return TopologyMonitor(
            jetstream,
            self._topology,
            self.metrics,
            self._alerts,
            self._consumers,
            mode=self.settings.topology,
        )

    def _build_context(
        self, monitor: TopologyMonitor, connections: Connections | None = None
    ) -> AppContext:
        self._context = AppContext(
            self.settings,
            self.metrics,
            self._alerts,
            self.policy_table,
            monitor.jetstream,
            connections=connections,
            infos=monitor.infos,
        )
        return self._context

    def _tree(self, context: AppContext, monitor: TopologyMonitor) -> Supervisor:
        pages = self._build_pages() if self._has_http else None
        return SupervisionTree(context, monitor, self._consumers).tree(pages)

    def _build_pages(self) -> Child:
        where, read, registry = (
            self.settings.http,
            ContractPages(self.settings).read,
            self.metrics.registry,
        )
        return self._host.pages(where.host, where.port, registry, self.readiness, read)

    # -- state -------------------------------------------------------------------------------------

    def readiness(self) -> Mapping[str, ReadinessCheck]:
        """The checks behind /readyz."""
        return {
            "broker": self._connected,
            "topology": self._monitor.check
            if self._monitor is not None
            else ReadinessCheck(False, "not compared yet"),
            **{
                name: check()
                for name, check in (
                    self._context.checks if self._context is not None else {}
                ).items()
            },
            **{child.label: child.check for child in self._consumers.children},
        }

    def list_extensions(self) -> frozenset[str]:
        """Return the ids of the registry that this process has in force; none before it serves."""
        return (
            frozenset(self._context.registry.get_all())
            if self._context is not None
            else frozenset()
        )

    def _announce(self, on_ready: Callable[[Ready], None]) -> None:
        log.info(events.ROUTER_READY)
        nats_url = self._connection.address if self._connection is not None else ""
        on_ready(Ready(nats_url, self._host.url))

    # -- the broker --------------------------------------------------------------------------------

    @property
    def _is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_connected

    @property
    def _connected(self) -> ReadinessCheck:
        """Whether all connections are up."""
        lost = self._context.connections.lost if self._context is not None else []
        if not self._is_connected or lost:
            return ReadinessCheck(False, f"not connected: {', '.join(lost) or 'main'}")
        return ReadinessCheck(True, "connected")

    async def _connect(self, *, on_lost: Told, on_back: Told) -> Connection:
        connection = self._connection = await connect_by(
            self.settings.nats, on_lost=on_lost, on_back=on_back
        )
        connection.on_fault = lambda exc: log.error(events.BROKER_ERROR, exc_info=exc)
        self.metrics.connected.set_function(lambda: int(self._is_connected))
        self.metrics.tasks.set_function(lambda: len(asyncio.all_tasks()))
        self.metrics.collections.set_function(collections)
        self.metrics.loop_stalls.set_function(lambda: self._loop_stalls.counts)
        self.metrics.loop_stall_seconds.set_function(lambda: self._loop_stalls.seconds)
        self._alerts.attach(connection)
        return connection

    def _on_lost(self) -> None:
        self._alert(CRITICAL, "broker_lost", "The connection to the broker is lost")

    def _on_back(self) -> None:
        self.metrics.reconnects.value += 1
        self._alert(INFO, "broker_back", "The broker is back")
        self._alerts.flush()

    def _alert(self, severity: str, cause: str, message: str) -> None:
        self._alerts.raise_alert(
            Alert(severity=severity, component="router.connection", cause=cause, message=message)
        )


async def _wait_for_leader(work: Callable[[], Awaitable[None]]) -> None:
    """Do it again while a cluster has no leader: an instance that is started in the middle of a
    restart of its servers begins after it.
    """
    while True:
        try:
            return await work()
        except NoLeader as exc:
            log.error(events.BROKER_WITHOUT_LEADER, cause=str(exc))
            await asyncio.sleep(LEADER_WAIT_S)
