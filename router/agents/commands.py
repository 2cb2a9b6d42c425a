"""`router agent`: run MeshForge's agents, and inspect their stores.

run                                     an agent, until a signal stops it
send                                    a command or an event, to an agent's subject
hash, events, state, verify, replay     read a store, also while an agent works on it; apply its
                                        events again
"""

from __future__ import annotations

import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from msgspec.structs import asdict

from router.agents.database import open_read_only
from router.agents.inspection import FAIL, EventFilter, list_newest_events
from router.agents.inspection import verify as look_over
from router.agents.outgoing import command_of, subject_of
from router.agents.replay import ReplayResult, hashes_of
from router.agents.replay import replay as apply_again
from router.agents.state import list_state_entries
from router.agents.topology import AgentTopology
from router.config import Settings
from router.contracts.headers import MESSAGE_ID
from router.core.masking import shorten
from router.operate.topology.declared_topology import (
    declare_advisories_stream,
    declare_attempts_bucket,
)
from router.process.memory import calm_collector
from router.sdk.agent import Agent
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.import_target import AgentTarget, StoreFile, import_agent
from router.shell.options import read_foreign
from router.shell.output import announce_event, format_json, print_table, show_progress
from router.shell.view import View, ViewColumn

# -- `run`.


@command(has_json=False)
def run(
    session: CommandSession,
    target: AgentTarget,
    *,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="FILE",
            help="Its event store. Default: {name}.db here.",
            dir_okay=False,
        ),
    ] = None,
    drain: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long running work may take at the end.", min=0),
    ] = 10.0,
    http_port: Annotated[
        int | None,
        typer.Option(
            help="Port of /metrics, /healthz and /readyz. Default: none.", min=1, max=65535
        ),
    ] = None,
) -> Coroutine[Any, Any, int]:
    """Run an agent until SIGTERM or Ctrl-C; then finish what is in flight and end with 0. A second
    signal ends at once: 130.

    Prints one JSON line, agent.ready, once the previous run's work is finished and messages are
    fetched. Logs go to standard error. Exit status: 1 the store failed, 2 the store, the durable or
    the filters are another's, 3 no broker answered.

    Example:  router agent run router.sdk.samples.agents.ledger:Ledger --store ledger.db
    """
    settings, adapter = session.settings, import_agent(target)
    path = store or Path(f"{adapter.name}.db")
    http = (settings.http.host, http_port) if http_port is not None else None
    agent = Agent(
        settings.nats, adapter, store=path, topology=make_places(settings), drain_s=drain, http=http
    )
    return _run_agent(session, agent, {"agent": adapter.name, "store": str(path)})


async def _run_agent(session: CommandSession, agent: Agent, facts: dict[str, str]) -> int:
    with calm_collector():
        return await session.serve(
            agent.run(lambda nats_url: announce_event("agent.ready", **facts, nats_url=nats_url))
        )


def make_places(settings: Settings) -> AgentTopology:
    """Return the streams and limits of agents for these settings."""
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


# -- `send`.


@command()
async def send(
    session: CommandSession,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT", help="ledger.post, or a whole subject: cmd.shop.orders.pay, evt.…."
        ),
    ],
    *,
    payload: Annotated[
        str,
        typer.Option(help="Any JSON value; @FILE reads a file, - standard input.", metavar="JSON"),
    ] = "{}",
    kind: Annotated[
        str | None,
        typer.Option("--type", help="The envelope's type. Default: the subject's last word."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="idempotency_key: the same one again is applied once. Default: a new one."
        ),
    ] = None,
) -> None:
    """Send a command to an agent, and wait until it is stored. Exit status: 0 stored (or stored
    before), 1 refused, 3 no stream took it.

    The agent creates its streams, so start it first.

    Example:  router agent send ledger.post --payload '{"account": "acme", "amount": 250}'
    """
    whole = subject_of(subject, make_places(session.settings))
    type_ = kind if kind is not None else whole.rpartition(".")[2]
    made = command_of(
        whole, type_, read_foreign(payload, "--payload"), key if key is not None else uuid4().hex
    )
    stored = await (await session.open_jetstream()).publish(
        made.subject, made.data, {MESSAGE_ID: made.id}
    )
    fields = {
        "key": made.id,
        "subject": made.subject,
        "stream": stored["stream"],
        "sequence": stored["seq"],
    }
    is_duplicate = bool(stored.get("duplicate"))
    was_stored = "was stored before" if is_duplicate else "stored"
    text = f"{made.id} {was_stored}: {stored['stream']} {stored['seq']} on {made.subject}"
    session.emit_one({**fields, "duplicate": is_duplicate}, text)


# -- `hash`, `events`, `state`, `verify` and `replay`.

VALUE_WIDTH = 200  # characters of a value in a table
EVENTS = View(
    *map(ViewColumn, ("place", "stream")),
    ViewColumn("seq", of="stream_seq"),
    *map(ViewColumn, ("type", "key", "status", "attempts", "sent", "unsent")),
    fields=lambda event: event.to_json(),
)
STATE = View(
    *map(ViewColumn, ("agent", "name")),
    ViewColumn("value", of=lambda entry: shorten(format_json(entry.value), VALUE_WIDTH)),
    fields=asdict,
)
FINDINGS = View(ViewColumn("check", of="name"), ViewColumn("verdict"), ViewColumn("detail"))
HASHES = ("events", "state", "log", "effects")


@command(skip_settings)
def hash_(session: CommandSession, store: StoreFile) -> None:
    """Print a store's hashes: of its events by stream and sequence, by arrival, and of what
    applying them changed.

    Example:  router agent hash --store ledger.db
    """
    with open_read_only(store) as db:
        hashes = asdict(hashes_of(db))
    session.emit_one(hashes)


@command(skip_settings)
def events(
    session: CommandSession,
    store: StoreFile,
    *,
    status: Annotated[str | None, typer.Option(help="Only received, applied or dead ones.")] = None,
    key: Annotated[str | None, typer.Option(help="Only the event of this idempotency key.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
) -> None:
    """List a store's events, the newest first; with --json one object a line, its content included.
    Exit status 0, also for none.

    Example:  router agent events --store ledger.db --status received
    """
    newest = list_newest_events(store, EventFilter(status, key), limit)
    session.emit(newest, EVENTS, empty="no events")


@command(skip_settings)
def state(
    session: CommandSession,
    store: StoreFile,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only the value of this name.")
    ] = None,
    *,
    prefix: Annotated[str | None, typer.Option(help="Only names that begin so.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, by name.", min=1)] = 50,
) -> int:
    """Show an agent's state; with --json one object a line, values whole. Exit status: 0, or 1 for
    a NAME that is not there.

    Example:  router agent state --store ledger.db --prefix balance:
    """
    entries = list_state_entries(store, name=name, prefix=prefix, limit=limit)
    everything = name is None and prefix is None
    empty = "nothing is remembered" if everything else "nothing of that name is remembered"
    session.emit(entries, STATE, empty=empty)
    return exit_codes.OK if entries or name is None else exit_codes.NO


@command(skip_settings)
def verify(session: CommandSession, store: StoreFile) -> int:
    """Check a store: complete, nothing missing, nothing waiting. It reads every page. Exit status:
    0 fine, 1 something is broken.

    Example:  router agent verify --store ledger.db
    """
    findings = look_over(store)
    session.emit(findings, FINDINGS, empty="")
    return exit_codes.NO if any(finding.verdict == FAIL for finding in findings) else exit_codes.OK


@command(skip_settings)
def replay(
    session: CommandSession,
    target: AgentTarget,
    *,
    store: StoreFile,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the fresh store here. Default: it is deleted.",
            dir_okay=False,
        ),
    ] = None,
) -> int:
    """Apply a store's events to a fresh one and compare. Nothing is published. Exit status: 0 the
    same, 1 not.

    Example:  router agent replay router.sdk.samples.agents.ledger:Ledger --store ledger.db
    """
    adapter = import_agent(target)
    with (
        tempfile.TemporaryDirectory(prefix="router-replay-") as home,
        show_progress("replaying", is_quiet=session.as_json) as advance,
    ):
        result = apply_again(adapter, store, into or Path(home) / "fresh.db", advance)
    session.emit_one(
        {"same": result.is_same, **{name: getattr(result.replayed, name) for name in HASHES}},
        lambda: _print_hashes(result),
    )
    return exit_codes.OK if result.is_same else exit_codes.NO


def _print_hashes(result: ReplayResult) -> None:
    pairs = (
        (name, getattr(result.stored, name), getattr(result.replayed, name)) for name in HASHES
    )
    rows = (
        (name, stored, replayed, "ok" if stored == replayed else "fail")
        for name, stored, replayed in pairs
    )
    print_table(("hash", "stored", "replayed", "verdict"), rows)
