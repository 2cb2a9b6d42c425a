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

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from router.agents.adapter import AgentAdapter, AgentState, Context, Outgoing
from router.agents.agent import DEFAULT_TOPOLOGY, AgentRuntime
from router.agents.envelope import Envelope
from router.agents.observer import AgentStats
from router.agents.topology import AgentTopology
from router.delivery.wire.connection import Connection
from router.process.observability import Metrics, ReadinessCheck, readiness_series
from router.process.observability.instruments import Labels, Value
from router.process.supervision import Child, Helper, helper_states
from router.sdk.connect import build_held_connection, build_jetstream
from router.sdk.signals import run_until_signal
from router.shell.host import ProcessHost

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
        host = ProcessHost()
        async with host.hold(build_held_connection(self._nats, "agent")) as (connection,):
            self._alerts.attach(connection)
            address = connection.address
            jetstream = build_jetstream(self._nats, connection)
            pages = (self._pages.child(host, connection),) if self._pages is not None else ()
            await self._runtime.run(jetstream, lambda: on_ready(address), *pages)


# -- Its pages for operators, where a port is given: /metrics, /healthz, /readyz.
#
# Without a port an agent reports by its logs, its alerts and `router agent` alone: many agents run
# on one host, so none has a port by default.


class AgentPages:
    """The pages of one agent. `where`: the address and the TCP port to bind; 0 = any free port."""

    def __init__(self, agent: str, runtime: AgentRuntime, where: tuple[str, int]) -> None:
        self._agent = agent
        self._runtime = runtime
        self._where = where
        self._connection: Connection | None = None
        self._helper: Helper | None = None

    def child(self, host: ProcessHost, connection: Connection) -> Child:
        """The child beside the agent's consumers."""
        self._connection = connection
        pages = host.pages(*self._where, self._register(Metrics()).registry, self._checks)
        # An agent works on without its pages.
        self._helper = Helper(pages.name, pages.run)
        return self._helper.child

    def _register(self, metrics: Metrics) -> Metrics:
        runtime, tally = self._runtime, self._runtime.stats
        metrics.ready.set_function(lambda: readiness_series(self._checks()))
        metrics.connected.set_function(self._is_connected)
        metrics.helper_failing.set_function(
            lambda: helper_states(
                [*runtime.helpers, *([self._helper] if self._helper is not None else ())]
            )
        )
        metrics.agent_applied.set_function(self._label(lambda: tally.applied))
        metrics.agent_duplicates.set_function(self._label(lambda: runtime.duplicates))
        metrics.agent_dead.set_function(self._label(lambda: tally.dead))
        metrics.agent_given_up.set_function(self._label(lambda: tally.given_up))
        metrics.agent_rescued.set_function(self._label(lambda: tally.rescued))
        metrics.agent_store_bytes.set_function(lambda: runtime.store_bytes, self._agent)
        for durable in runtime.durables:
            metrics.consumer_paused.set_function(partial(self._is_paused, durable), durable)
        return metrics

    def _label(self, read: Callable[[], int]) -> Callable[[], Mapping[Labels, Value]]:
        return lambda: {(self._agent,): read()}

    def _is_paused(self, durable: str) -> int:
        return int(durable in self._runtime.stats.paused)

    def _is_connected(self) -> int:
        return int(self._connection is not None and self._connection.is_connected)

    def _checks(self) -> Mapping[str, ReadinessCheck]:
        return {
            "broker": ReadinessCheck(
                bool(self._is_connected()), "connected" if self._is_connected() else "not connected"
            ),
            "consumers": _check_consumers(self._runtime.stats),
        }


def _check_consumers(stats: AgentStats) -> ReadinessCheck:
    if stats.paused:
        return ReadinessCheck(False, f"paused: {', '.join(sorted(stats.paused))}")
    if stats.held_back:
        return ReadinessCheck(
            False,
            "; ".join(f"consumer_paused: {cause}" for _, cause in sorted(stats.held_back.items())),
        )
    if stats.waiting:
        names = ", ".join(sorted(stats.waiting))
        return ReadinessCheck(
            False, f"some messages wait for a stream that refuses, the others go on: {names}"
        )
    return ReadinessCheck(True, "fetching")
