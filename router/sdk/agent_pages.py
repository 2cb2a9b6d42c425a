"""An agent's pages for operators, where a port is given: /metrics, /healthz, /readyz.

Without a port an agent reports by its logs, its alerts and `router agent` alone: many agents run on
one host, so none has a port by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from router.agents.agent import AgentRuntime
from router.agents.observer import AgentStats
from router.delivery.wire.connection import Connection
from router.delivery.wire.stuck import ConnectionWatchdog
from router.process.observability import HttpServer, Metrics, ReadinessCheck, readiness_series
from router.process.observability.instruments import Labels, Value
from router.process.supervision import Child, Helper, helper_states


class AgentPages:
    """The pages of one agent. `where`: the address and the TCP port to bind; 0 = any free port."""

    def __init__(self, agent: str, runtime: AgentRuntime, where: tuple[str, int]) -> None:
        self._agent = agent
        self._runtime = runtime
        self._where = where
        self._connection: Connection | None = None
        self._helper: Helper | None = None

    def child(
        self,
        connection: Connection,
        watchdog: ConnectionWatchdog,
        on_bound: Callable[[int], None] = lambda _: None,
    ) -> Child:
        """The child beside the agent's consumers; `on_bound` gets the port."""
        self._connection = connection
        metrics = self._register(Metrics())
        server = HttpServer(
            *self._where, metrics.registry, self._checks, stuck=lambda: watchdog.cause
        )
        # an agent works on without its pages
        self._helper = Helper("http", lambda: server.run(on_bound))
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
