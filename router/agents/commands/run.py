"""`router agent run`: run an agent until a signal stops it."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.shell.command_frame import CommandSession, command
from router.shell.import_target import AgentTarget, import_agent
from router.shell.output import announce_event

if TYPE_CHECKING:
    from router.agents.topology import AgentTopology
    from router.config import Settings
    from router.sdk.agent import Agent


@command(has_json=False)
def run(
    session: CommandSession,
    target: AgentTarget,
    *,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FILE", help="Its event store. Default: {name}.db here.", dir_okay=False)
    ] = None,
    drain: Annotated[float, typer.Option(metavar="SECONDS", help="How long running work may take at the end.", min=0)] = 10.0,
    http_port: Annotated[int | None, typer.Option(help="Port of /metrics, /healthz and /readyz. Default: none.", min=1, max=65535)] = None,
) -> Coroutine[Any, Any, int]:
    """Run an agent until SIGTERM or Ctrl-C; then finish what is in flight and end with 0. A second signal ends at once: 130.

    Prints one JSON line, agent.ready, once the previous run's work is finished and messages are fetched. Logs go to standard error.
    Exit status: 1 the store failed, 2 the store, the durable or the filters are another's, 3 no broker answered.

    Example:  router agent run router.sdk.samples.agents.ledger:Ledger --store ledger.db
    """
    from router.sdk.agent import Agent

    settings, adapter = session.settings, import_agent(target)
    path = store or Path(f"{adapter.name}.db")
    http = (settings.http.host, http_port) if http_port is not None else None
    agent = Agent(settings.nats, adapter, store=path, topology=make_places(settings), drain_s=drain, http=http)
    return _run(session, agent, {"agent": adapter.name, "store": str(path)})


async def _run(session: CommandSession, agent: Agent, facts: dict[str, str]) -> int:
    from router.process.garbage_collection import calm_collector

    with calm_collector():
        return await session.serve(agent.run(lambda nats_url: announce_event("agent.ready", **facts, nats_url=nats_url)))


def make_places(settings: Settings) -> AgentTopology:
    """Return the streams and limits of agents for these settings."""
    from router.agents.topology import AgentTopology
    from router.operate.topology.declared_topology import declare_advisories_stream, declare_attempts_bucket

    agents = settings.agents
    return AgentTopology(
        events=agents.events_stream,
        commands=agents.commands_stream,
        failed=agents.failed_stream,
        advisories=settings.streams.advisories.name,
        attempts=settings.buckets.attempts.name,
        scope=agents.scope,
        events_retention=agents.events_retention,
        events_max_age=agents.events_max_age_ms / 1000,
        max_bytes=agents.max_bytes,
        max_payload_bytes=settings.max_payload_bytes,
        duplicate_window=agents.duplicate_window_ms / 1000,
        max_deliver=agents.max_deliver,
        ack_wait=agents.ack_wait_ms / 1000,
        max_ack_pending=agents.max_ack_pending,
        prefetch=agents.prefetch,
        sweep=agents.sweep_ms / 1000,
        replicas=agents.replicas,
        shared=(declare_advisories_stream(settings), declare_attempts_bucket(settings)),
    )
