"""`router workers`: listen to heartbeats for a moment, and list which workers are alive, busy or silent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command

if TYPE_CHECKING:
    from router.work.model import Liveness, TrackedWorker, WorkerCondition

COLUMNS = ("worker", "tenant", "status", "load", "slots", "every", "heard")
POLL_S = 0.05
MAX_REFUSED = 20  # refused heartbeats that are reported


@command()
async def workers(
    session: CommandSession,
    listen: Annotated[
        float, typer.Option("--for", metavar="SECONDS", help="How long to listen; a worker usually sends a heartbeat every 5 s.", min=0.1)
    ] = 6.0,
) -> int:
    """List the workers that send heartbeats; with --json one object a line. A worker is silent after three missed heartbeats.

    Exit status: 0 a worker is alive, 1 none is.

    Example:  router workers --for 20
    """
    from router.contracts.heartbeat import HEARTBEAT_SUBJECTS
    from router.core.clock import steady
    from router.work.model import Liveness

    known, refused = Liveness(), dict[tuple[str | None, str], None]()
    connection = (await session.open_jetstream()).connection
    for subject in HEARTBEAT_SUBJECTS:
        await connection.subscribe_direct(subject, lambda _s, _r, data, headers: _on_heartbeat(known, refused, data, headers))
    await connection.require_permission(*HEARTBEAT_SUBJECTS)
    await _wait(listen, known)
    now = steady()
    found = sorted(known.list_workers(now), key=lambda one: (one[0].beat.tenant_id or "", one[0].beat.worker_id))
    empty = f"no worker was heard within {listen:g} s"
    session.emit(found, COLUMNS, lambda one: _build_row(*one, now), lambda one: _list_fields(*one, now), empty=empty)
    for claimed, reason in refused:
        exit_codes.complain(f"a heartbeat of {claimed or 'an unknown worker'} cannot be taken: {reason}")
    return exit_codes.OK if known.count_alive(now) else exit_codes.NO


def _on_heartbeat(known: Liveness, refused: dict[tuple[str | None, str], None], data: bytes, headers: Mapping[str, str] | None) -> None:
    """Take one heartbeat, or keep the reason why it is none, in order; at most `MAX_REFUSED`."""
    from router.contracts.heartbeat import Heartbeat, read_claimed_id, read_heartbeat
    from router.core.clock import now_ms, steady

    beat = read_heartbeat(data, now_ms(), headers or {})
    if isinstance(beat, Heartbeat):
        known.on_heartbeat(beat, steady())
    elif len(refused) < MAX_REFUSED:
        refused[read_claimed_id(data), beat.message] = None


async def _wait(seconds: float, known: Liveness) -> None:
    """Wait, with a bar if standard error is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("listening"), BarColumn(), TextColumn("{task.fields[heard]} heard"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("", total=seconds, heard=0)
        now = asyncio.get_running_loop().time
        until = now() + seconds
        while (left := until - now()) > 0:
            progress.update(bar, completed=seconds - left, heard=len(known))
            await asyncio.sleep(min(POLL_S, left))


def _build_row(worker: TrackedWorker, condition: WorkerCondition, now: float) -> tuple[object, ...]:
    from router.operate.doctor.finding import share, span

    beat = worker.beat
    load = share(beat.load) if beat.load is not None else None
    every = span(beat.interval_ms / 1000) if beat.interval_ms is not None else None
    return (beat.worker_id, beat.tenant_id, condition.value, load, beat.capacity, every, f"{span(now - worker.heard_at)} ago")


def _list_fields(worker: TrackedWorker, condition: WorkerCondition, now: float) -> dict[str, object]:
    from msgspec import to_builtins

    fields = {**to_builtins(worker.beat), "status": condition.value, "heard_s_ago": round(now - worker.heard_at, 3)}
    return {name: value for name, value in fields.items() if value is not None}
