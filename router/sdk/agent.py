"""What the author of an agent imports, and `Agent`, which runs it: its effects happen once, however
often its messages are delivered.

    from router.sdk.agent import Agent, Outgoing

    class Greeter:
        name = "greeter"
        def receive(self, envelope): ...
        def apply(self, ctx, envelope):
            ctx.state.put("greeted", ctx.state.get("greeted", 0) + 1) return
            [Outgoing("evt.default.demo.greeted", "greeted", {"count": ctx.state.get("greeted")})]

    router.run(Agent("nats://localhost:4222", Greeter(), store="greeter.db"))

`router/sdk/samples/agents/ledger.py` is a complete one. `router.agents` holds the protocol; `Agent`
gives it a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from router.agents.adapter import AgentAdapter, AgentState, Context, Outgoing
from router.agents.agent import DEFAULT_TOPOLOGY, AgentRuntime
from router.agents.envelope import Envelope
from router.agents.topology import AgentTopology
from router.delivery.wire.api import JetStream
from router.delivery.wire.stuck import watch_connections
from router.process.observability.broker_log import BrokerLog
from router.sdk.agent_pages import AgentPages
from router.sdk.connect import close_connection, open_connection
from router.sdk.signals import run_until_signal

if TYPE_CHECKING:
    from router.config import NatsConfig

__all__ = [
    "Agent",
    "AgentAdapter",
    "AgentState",
    "AgentTopology",
    "Context",
    "Envelope",
    "Outgoing",
]

ALERT_EVERY_S = 60.0


class Agent:
    """One agent and its event store. `run` until cancelled, or until SIGTERM or Ctrl-C; then it
    drains, within `drain_s` seconds.
    """

    def __init__(
        self,
        nats: str | NatsConfig,
        adapter: AgentAdapter,
        *,
        store: str | Path,
        topology: AgentTopology = DEFAULT_TOPOLOGY,
        drain_s: float = 10.0,
        http: tuple[str, int] | None = None,
    ) -> None:
        """`http`: address and port of its pages for operators, None = no pages. Raises
        Misconfigured for an invalid name or filter.
        """
        # loads settings, which an import of `Agent` alone does not need
        from router.operate.alerts import Alerts

        self._nats = nats
        self._alerts = Alerts(adapter.name, ALERT_EVERY_S)
        self._runtime = AgentRuntime(
            adapter, Path(store), topology, drain_s=drain_s, alert=self._alerts.raise_alert
        )
        self._pages = AgentPages(adapter.name, self._runtime, http) if http is not None else None

    @property
    def applied(self) -> int:
        """Messages acknowledged in this run, duplicates included."""
        return self._runtime.stats.applied

    async def run(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """`on_ready` gets the server's URL once, before the first message is fetched.

        Raises BrokerUnavailable when no server answers, ConnectionStuck when only a new process
        comes through, Misconfigured when the store or the durable belongs to another agent,
        StoreFailed.
        """
        await run_until_signal(self.work(on_ready))

    async def work(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """The same, until cancelled, for a program that handles signals itself."""
        connection = await open_connection(self._nats, "router-agent", broker := BrokerLog("agent"))
        self._alerts.attach(connection)
        url = connection.connected_url
        address = f"nats://{url.hostname}:{url.port}" if url is not None else ""
        jetstream = JetStream(
            connection, None if isinstance(self._nats, str) else self._nats.js_domain
        )
        try:
            async with watch_connections(connection) as watchdog:
                pages = (
                    (self._pages.child(connection, watchdog),) if self._pages is not None else ()
                )
                await self._runtime.run(jetstream, lambda: on_ready(address), *pages)
        finally:
            broker.is_closing = True
            await close_connection(connection)
