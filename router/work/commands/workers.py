"""`router worker` and `router workers`.

worker      answer assignments with a function, a registered provider or an echo, until a signal
            stops it
workers     which workers are alive, busy or silent
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from router.config import Settings
from router.contracts.exec_assignment import ExecAssignment
from router.contracts.heartbeat import (
    HEARTBEAT_SUBJECTS,
    Heartbeat,
    read_claimed_id,
    read_heartbeat,
)
from router.core.clock import now_ms, steady
from router.process.memory import calm_collector
from router.sdk import Client, StepResult, Worker, WorkerTopology
from router.sdk.provider_handler import ProviderHandler
from router.sdk.start_point import Start
from router.sdk.step import Echo, Handler
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.exit_codes import OUTPUT_CLOSED
from router.shell.import_target import import_function
from router.shell.output import announce_event, log_unwritten, print_event
from router.work.model import Liveness
from router.work.views import make_workers_view

# -- `router worker`.

START_HELP = (
    "Assignments from before the durable was made: unanswered (those without a result are "
    "done), new (none is) or all."
)

Target = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:FUNCTION", help="Answers an assignment with a StepResult."),
]
ByEcho = Annotated[bool, typer.Option("--echo", help="Answer with the payload instead.")]
ByProviders = Annotated[
    bool,
    typer.Option(
        "--providers", help="Answer by invoking each assignment's provider, as registered."
    ),
]
WorkerId = Annotated[
    str | None, typer.Option(help="The worker's id. Default: host and process id.")
]
Slots = Annotated[int, typer.Option(help="Assignments at once.", min=1)]
Subject = Annotated[
    str | None,
    typer.Option(help="Which assignments, wildcards allowed. Default: the router's own subject."),
]
Durable = Annotated[str, typer.Option(help="Workers of one durable share its work.")]
StartFrom = Annotated[str, typer.Option(help=START_HELP)]
Encoding = Annotated[str, typer.Option(help="Of results: json or protobuf.")]
Interval = Annotated[
    float, typer.Option(metavar="SECONDS", help="Between two heartbeats.", min=0.01, max=3600)
]
Silence = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="After this silence a dead worker's assignments go to others.",
        min=0.1,
        max=86_400,
    ),
]
Drain = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long running work may take at the end.", min=0)
]
Latency = Annotated[float, typer.Option(help="How long an echo takes.", min=0)]
FailRate = Annotated[float, typer.Option(help="The share of echoes that fail.", min=0, max=1)]
Cost = Annotated[float, typer.Option(help="The cost of an echo.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no line for each assignment.")]


@command(has_json=False)
def worker(
    session: CommandSession,
    *,
    target: Target = None,
    echo: ByEcho = False,
    providers: ByProviders = False,
    worker_id: WorkerId = None,
    slots: Slots = 16,
    subject: Subject = None,
    durable: Durable = "caf-worker",
    start: StartFrom = "unanswered",
    encoding: Encoding = "json",
    heartbeat: Interval = 5.0,
    ack_wait: Silence = 30.0,
    drain: Drain = 10.0,
    latency_ms: Latency = 0.0,
    fail_rate: FailRate = 0.0,
    cost: Cost = 0.001,
    quiet: Quiet = False,
) -> Coroutine[Any, Any, int]:
    """Answer assignments until SIGTERM or Ctrl-C; then finish what is in flight and end with 0. A
    second signal ends at once: 130.

    Prints one JSON line, worker.ready, once it takes assignments, then one for each that it
    handled. Logs go to standard error.
    When the reader of its output stops (`router worker … | head`), it drains and ends with 141.

    Example:  router worker --echo --latency-ms 20    router worker --providers    router worker my_package.models:answer
    """
    if [target is not None, echo, providers].count(True) != 1:
        raise typer.BadParameter("give MODULE:FUNCTION, --echo or --providers")
    settings = session.settings
    client, handler = _choose_handler(
        settings,
        target,
        Echo(latency_ms=latency_ms, fail_rate=fail_rate, cost=cost) if echo else None,
    )
    options: dict[str, Any] = {
        "slots": slots,
        "heartbeat_s": heartbeat,
        "ack_wait_s": ack_wait,
        "drain_s": drain,
        "encoding": encoding,
    }
    places: dict[str, Any] = {
        "subject": subject or settings.assignment.subjects[0],
        "durable": durable,
        "topology": make_places(settings),
    }
    name = worker_id or f"{socket.gethostname()}:{os.getpid()}"
    lines = HandledLines(is_quiet=quiet)
    made = Worker(
        settings.nats,
        handler,
        worker_id=name,
        on_done=lines.print,
        start=cast("Start", start),
        **options,
        **places,
    )
    return _run_worker(session, made, client, lines, {"durable": durable, "slots": slots})


def _choose_handler(
    settings: Settings, target: str | None, echo: Handler | None
) -> tuple[Client | None, Handler]:
    """Return the handler, and the client that it needs while the worker works."""
    if echo is not None:
        return None, echo
    if target is not None:
        return None, import_function(target, "my_package.models:answer")
    client = Client(settings.nats)
    return client, ProviderHandler(client)


def make_places(settings: Settings) -> WorkerTopology:
    """Return the streams, buckets and subjects of a worker for these settings."""
    return WorkerTopology(
        stream=settings.streams.assignments.name,
        attempts=settings.buckets.attempts.name,
        results=settings.results.subject,
        acks=settings.acks.subject,
    )


async def _run_worker(
    session: CommandSession,
    worker: Worker,
    client: Client | None,
    lines: HandledLines,
    facts: dict[str, object],
) -> int:
    def announce(nats_url: str) -> None:
        announce_event("worker.ready", worker_id=worker.worker_id, nats_url=nats_url, **facts)

    with calm_collector():
        async with client or nullcontext():
            status = await session.serve(lines.run(worker.run(announce)))
            return OUTPUT_CLOSED if lines.is_closed and not status else status


class HandledLines:
    """One JSON line for each assignment that was handled. A reader that closed the output ends the
    worker, which drains first.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self.is_closed = False
        self._work: asyncio.Task[Any] | None = None
        self._is_full = False

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` until it ends, or until the output is closed: then it is cancelled."""
        self._work = asyncio.current_task()
        await work

    def print(self, assignment: ExecAssignment, step: StepResult, latency_ms: int) -> None:
        """The worker's `on_done`."""
        if self._is_quiet or self.is_closed:
            return
        try:
            _print_handled(assignment, step, latency_ms)
            self._is_full = False
        except BrokenPipeError:
            self.is_closed = True
            if self._work is not None:
                self._work.cancel()
        except OSError as exc:  # a full disk: its work goes on without the line
            if not self._is_full:
                log_unwritten("worker.handled", exc)
            self._is_full = True


def _print_handled(assignment: ExecAssignment, step: StepResult, latency_ms: int) -> None:
    print_event(
        "worker.handled",
        assignment_id=assignment.assignment_id,
        tenant_id=assignment.tenant_id,
        job=assignment.job_type,
        status=step.status,
        latency_ms=latency_ms,
        **({"error_code": step.error_code} if step.error_code is not None else {}),
    )


# -- `router workers`.

POLL_S = 0.05
MAX_REFUSED = 20  # refused heartbeats that are reported


@command()
async def workers(
    session: CommandSession,
    listen: Annotated[
        float,
        typer.Option(
            "--for",
            metavar="SECONDS",
            help="How long to listen; a worker usually sends a heartbeat every 5 s.",
            min=0.1,
        ),
    ] = 6.0,
) -> int:
    """List the workers that send heartbeats; with --json one object a line. A worker is silent
    after three missed heartbeats.

    Exit status: 0 a worker is alive, 1 none is.

    Example:  router workers --for 20
    """
    liveness, refused = Liveness(), dict[tuple[str | None, str], None]()
    connection = (await session.open_jetstream()).connection
    for subject in HEARTBEAT_SUBJECTS:
        await connection.subscribe_direct(
            subject, lambda _s, _r, data, headers: _on_heartbeat(liveness, refused, data, headers)
        )
    await connection.require_permission(*HEARTBEAT_SUBJECTS)
    await _wait_for_heartbeats(listen, liveness)
    now = steady()
    heard = sorted(
        liveness.list_workers(now),
        key=lambda heard_worker: (
            heard_worker[0].beat.tenant_id or "",
            heard_worker[0].beat.worker_id,
        ),
    )
    empty = f"no worker was heard within {listen:g} s"
    session.emit(heard, make_workers_view(now), empty=empty)
    for claimed, reason in refused:
        exit_codes.complain(
            f"a heartbeat of {claimed or 'an unknown worker'} cannot be taken: {reason}"
        )
    return exit_codes.OK if liveness.count_alive(now) else exit_codes.NO


def _on_heartbeat(
    liveness: Liveness,
    refused: dict[tuple[str | None, str], None],
    data: bytes,
    headers: Mapping[str, str] | None,
) -> None:
    """Take one heartbeat, or keep the reason why it is none, in order; at most `MAX_REFUSED`."""
    beat = read_heartbeat(data, now_ms(), headers or {})
    if isinstance(beat, Heartbeat):
        liveness.on_heartbeat(beat, steady())
    elif len(refused) < MAX_REFUSED:
        refused[read_claimed_id(data), beat.message] = None


async def _wait_for_heartbeats(seconds: float, liveness: Liveness) -> None:
    """Wait, with a bar if standard error is a terminal."""
    columns = (TextColumn("listening"), BarColumn(), TextColumn("{task.fields[heard]} heard"))
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as progress:
        bar = progress.add_task("", total=seconds, heard=0)
        now = asyncio.get_running_loop().time
        until = now() + seconds
        while (left := until - now()) > 0:
            progress.update(bar, completed=seconds - left, heard=len(liveness))
            await asyncio.sleep(min(POLL_S, left))
