"""Run one agent: open its store, create its streams and durables, finish the work of its earlier
run; then run its consumers.

open and lock the store -> streams and durables, or a refusal -> resume -> supervise the consumers
-> close the store, last
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from router.agents.adapter import AgentAdapter, check_adapter
from router.agents.database import StoreFile
from router.agents.observer import AgentAlerts, AgentStats, Raise
from router.agents.preparation import prepare
from router.agents.store_worker import StoreWorker
from router.agents.thread import StoreThread
from router.agents.topology import AgentTopology, subscriptions_of
from router.agents.tree import AgentTree
from router.delivery.wire.api import JetStream
from router.process.supervision import Child, Helper, supervise

DEFAULT_TOPOLOGY = AgentTopology()


class AgentRuntime:
    """An adapter, its store and its topology. `run` until cancelled; then it drains."""

    def __init__(
        self,
        adapter: AgentAdapter,
        store: Path,
        topology: AgentTopology = DEFAULT_TOPOLOGY,
        *,
        drain_s: float = 10.0,
        alert: Raise = lambda _: None,
    ) -> None:
        """`drain_s`: seconds that work in flight may take at the end.

        Raises Misconfigured for a name or filters that cannot be, or methods that could not be
        called.
        """
        check_adapter(adapter)
        self.stats = AgentStats()
        self._adapter = adapter
        self._path = store
        self._topology = topology
        self._drain_s = drain_s
        self._alerts = AgentAlerts(self.stats, alert)
        self._subscriptions = subscriptions_of(adapter, topology)
        self._work: StoreWorker | None = None
        self._consumers: AgentTree | None = None

    @property
    def duplicates(self) -> int:
        """Messages of this run that were applied before."""
        return self._work.duplicates if self._work is not None else 0

    @property
    def store_bytes(self) -> int:
        """Bytes of the store on the disk, its journal included; the store keeps every key."""
        return sum(
            file.stat().st_size
            for name in ("", "-wal")
            if (file := Path(f"{self._path}{name}")).exists()
        )

    @property
    def helpers(self) -> Sequence[Helper]:
        """Children that the agent can do without for a while."""
        return self._consumers.helpers if self._consumers is not None else ()

    @property
    def durables(self) -> tuple[str, ...]:
        return tuple(subscription.durable for subscription in self._subscriptions)

    async def run(
        self, jetstream: JetStream, on_ready: Callable[[], None] = lambda: None, *beside: Child
    ) -> None:
        """`beside`: children that live as long as the agent.

        Raises Misconfigured (a second process, another's durable, overlapping filters),
        StoreFailed, BrokerUnavailable.
        """
        thread = StoreThread()
        try:
            database = await thread.run(StoreFile, self._path)
            try:
                await self._run(database, thread, jetstream, on_ready, beside)
            finally:
                await thread.close()  # the thread finishes its current work first
                database.close()
        finally:
            await thread.close()

    async def _run(
        self,
        database: StoreFile,
        thread: StoreThread,
        jetstream: JetStream,
        on_ready: Callable[[], None],
        beside: Sequence[Child],
    ) -> None:
        work = self._work = StoreWorker(
            self._adapter,
            database,
            thread,
            self._topology,
            max_payload=jetstream.connection.max_payload,
        )
        there = await prepare(jetstream, self._subscriptions, self._topology, database.id)
        await work.resume(jetstream)
        on_ready()
        consumers = self._consumers = AgentTree(
            self._adapter.name,
            jetstream,
            there,
            self._topology,
            work=work,
            alerts=self._alerts,
            drain_s=self._drain_s,
        )
        await supervise(consumers.tree(self._subscriptions, *beside))
