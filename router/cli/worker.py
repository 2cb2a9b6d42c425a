"""`router worker`: answer assignments with a function, a registered provider or an echo, until a signal stops it."""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from router.cli import exit_codes
from router.cli.import_target import import_function
from router.cli.options import ConfigFile, NatsUrl
from router.cli.output import print_lines
from router.cli.session import load_settings

if TYPE_CHECKING:
    from router.config import Settings
    from router.contracts.exec_assignment import ExecAssignment
    from router.sdk import Client, StepResult, Worker, WorkerTopology
    from router.sdk.start_point import Start


def worker(
    *,
    target: Annotated[str | None, typer.Argument(metavar="MODULE:FUNCTION", help="Answers an assignment with a StepResult.")] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Answer with the payload instead.")] = False,
    providers: Annotated[bool, typer.Option("--providers", help="Answer by invoking each assignment's provider, as registered.")] = False,
    worker_id: Annotated[str | None, typer.Option(help="The worker's id. Default: host and process id.")] = None,
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
    drain: Annotated[float, typer.Option(metavar="SECONDS", help="How long running work may take at the end.", min=0)] = 10.0,
    latency_ms: Annotated[float, typer.Option(help="How long an echo takes.", min=0)] = 0.0,
    fail_rate: Annotated[float, typer.Option(help="The share of echoes that fail.", min=0, max=1)] = 0.0,
    cost: Annotated[float, typer.Option(help="The cost of an echo.", min=0)] = 0.001,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no line for each assignment.")] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> None:
    """Answer assignments until SIGTERM or Ctrl-C; then finish what is in flight and end with 0. A second signal ends at once: 130.

    Prints one JSON line, worker.ready, once it takes assignments, then one for each that it handled. Logs go to standard error.

    Example:  router worker --echo --latency-ms 20    router worker --providers    router worker my_package.models:answer
    """
    if [target is not None, echo, providers].count(True) != 1:
        raise typer.BadParameter("give MODULE:FUNCTION, --echo or --providers")
    from router.sdk import Client, Worker
    from router.sdk.echo import Echo
    from router.sdk.provider_handler import ProviderHandler

    with exit_codes.report_errors():
        settings = load_settings(nats_url, config)
        client = Client(settings.nats) if providers else None
        echoing = Echo(latency_ms=latency_ms, fail_rate=fail_rate, cost=cost)
        made = Worker(
            settings.nats,
            import_function(target, "my_package.models:answer")
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
            on_done=_ignore if quiet else _print_handled,
            topology=make_places(settings),
            start=cast("Start", start),  # Worker refuses other values
        )
    exit_codes.run(_work(made, settings, {"durable": durable, "slots": slots}, client))


def make_places(settings: Settings) -> WorkerTopology:
    """Return the streams, buckets and subjects of a worker for these settings."""
    from router.sdk import WorkerTopology

    return WorkerTopology(
        stream=settings.streams.assignments.name,
        attempts=settings.buckets.attempts.name,
        results=settings.results.subject,
        acks=settings.acks.subject,
    )


async def _work(worker: Worker, settings: Settings, facts: dict[str, object], client: Client | None) -> int:
    from contextlib import nullcontext

    from router.cli.signals import run_until_signal
    from router.operations.observability import configure

    configure(settings.log.level, settings.log.format)
    announce = partial(_announce, worker.worker_id, facts)
    async with client or nullcontext():
        return await run_until_signal(worker.run(announce))


def _announce(worker_id: str, facts: dict[str, object], nats_url: str) -> None:
    print_lines([{"event": "worker.ready", "worker_id": worker_id, "nats_url": nats_url, **facts}])


def _print_handled(assignment: ExecAssignment, step: StepResult, latency_ms: int) -> None:
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


def _ignore(*_: object) -> None: ...
