"""`router worker`: take assignments and answer them, with a function of yours, a registered provider or an echo, until told to stop."""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from router.cli import ends
from router.cli.loaded import function_at
from router.cli.options import ConfigFile, NatsUrl
from router.cli.output import print_lines
from router.cli.session import settings_of

if TYPE_CHECKING:
    from router.config import Settings
    from router.contracts.exec_assignment import ExecAssignment
    from router.sdk import Client, StepResult, Worker, WorkerTopology
    from router.sdk.start_point import Start


def worker(
    *,
    target: Annotated[str | None, typer.Argument(metavar="MODULE:FUNCTION", help="What answers an assignment with a StepResult.")] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Answer with what was given instead.")] = False,
    providers: Annotated[bool, typer.Option("--providers", help="Answer by invoking each assignment's provider, as registered.")] = False,
    worker_id: Annotated[str | None, typer.Option(help="Who this worker is. Default: host and process id.")] = None,
    slots: Annotated[int, typer.Option(help="Assignments at once.", min=1)] = 16,
    subject: Annotated[str | None, typer.Option(help="Which assignments, wildcards allowed. Default: the router's own subject.")] = None,
    durable: Annotated[str, typer.Option(help="Workers of one durable share its work.")] = "caf-worker",
    start: Annotated[
        str,
        typer.Option(
            help="Assignments from before the durable was made: unanswered (those without a result are done), new (none is) or all."
        ),
    ] = "unanswered",
    encoding: Annotated[str, typer.Option(help="Of results: json or protobuf.")] = "json",
    heartbeat: Annotated[float, typer.Option(metavar="SECONDS", help="Between two heartbeats.", min=0.01, max=3600)] = 5.0,
    ack_wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="After this silence a dead worker's assignments go to others.", min=0.1)
    ] = 30.0,
    drain: Annotated[float, typer.Option(metavar="SECONDS", help="Work in hand may take this long at the end.", min=0)] = 10.0,
    latency_ms: Annotated[float, typer.Option(help="How long an echo takes.", min=0)] = 0.0,
    fail_rate: Annotated[float, typer.Option(help="Which share of echoes fails.", min=0, max=1)] = 0.0,
    cost: Annotated[float, typer.Option(help="What an echo costs.", min=0)] = 0.001,
    quiet: Annotated[bool, typer.Option("--quiet", help="No line for each assignment.")] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> None:
    """Take assignments and answer them until SIGTERM or Ctrl-C; then finish what is in hand and end with 0. A second signal hurries: 130.

    Prints one JSON line, worker.ready, once assignments are taken, then one for each that was handled. Logs go to standard error.

    Example:  router worker --echo --latency-ms 20    router worker --providers    router worker my_package.models:answer
    """
    if [target is not None, echo, providers].count(True) != 1:
        raise typer.BadParameter("give MODULE:FUNCTION, --echo or --providers")
    from router.sdk import Client, Worker
    from router.sdk.echo import Echo
    from router.sdk.provider_handler import ProviderHandler

    with ends.errors_told():
        settings = settings_of(nats_url, config)
        client = Client(settings.nats) if providers else None
        echoing = Echo(latency_ms=latency_ms, fail_rate=fail_rate, cost=cost)
        made = Worker(
            settings.nats,
            function_at(target, "my_package.models:answer")
            if target is not None
            else ProviderHandler(client)
            if client is not None
            else echoing,
            worker_id=worker_id or f"{socket.gethostname()}:{os.getpid()}",
            subject=subject or settings.assignment.subjects[0],
            durable=durable,
            slots=slots,
            heartbeat_s=heartbeat,
            ack_wait_s=ack_wait,
            drain_s=drain,
            encoding=encoding,
            on_done=_untold if quiet else _told,
            topology=places_of(settings),
            start=cast("Start", start),  # it refuses what is none
        )
    ends.run(_work(made, settings, {"durable": durable, "slots": slots}, client))


def places_of(settings: Settings) -> WorkerTopology:
    """Where a worker of the router with these settings works."""
    from router.sdk import WorkerTopology

    return WorkerTopology(
        stream=settings.streams.assignments.name,
        starts=settings.buckets.starts.name,
        results=settings.results.subject,
        acks=settings.acks.subject,
    )


async def _work(worker: Worker, settings: Settings, facts: dict[str, object], client: Client | None) -> int:
    from contextlib import nullcontext

    from router.cli.life import until_told
    from router.observability import configure

    configure(settings.log.level, settings.log.format)
    announce = partial(_announce, worker.worker_id, facts)
    async with client or nullcontext():
        return await until_told(worker.run(announce))


def _announce(worker_id: str, facts: dict[str, object], nats_url: str) -> None:
    print_lines([{"event": "worker.ready", "worker_id": worker_id, "nats_url": nats_url, **facts}])


def _told(assignment: ExecAssignment, step: StepResult, latency_ms: int) -> None:
    line = {
        "event": "worker.handled",
        "assignment_id": assignment.assignment_id,
        "tenant_id": assignment.tenant_id,
        "job": assignment.job_type,
        "status": step.status,
        "latency_ms": latency_ms,
        "error_code": step.error_code,
    }
    print_lines([{name: value for name, value in line.items() if value is not None}])


def _untold(*_: object) -> None: ...
