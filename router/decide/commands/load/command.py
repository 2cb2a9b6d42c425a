"""`router bench load`: a load of your own requests on your own router, in steps.

options, requests    checked; nothing is sent before all of them are
--policy             put by the router's own service, and deleted whatever comes after
one request          asked, so that a router that is not there is told at once
bare loop            the same load, answered by a process that decides nothing
load                 a second of warm-up, then measured
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer

from router.core import ids
from router.core.errors import PermissionDenied
from router.decide.commands.load.loops import LoopPlan
from router.decide.commands.load.processes import (
    AskingProcesses,
    start_processes,
    start_responder,
)
from router.decide.commands.load.report import LiveLine, print_figures
from router.decide.commands.load.requests import (
    DEFAULT_PAYLOAD,
    DEFAULT_TENANT,
    DEFAULT_TYPE,
    RequestBodies,
    RequestChanges,
    make_request,
    read_requests,
    write_request,
)
from router.decide.commands.load.tally import (
    RESOLUTION,
    LoadTally,
    add_up,
    compute_figures,
    compute_ratios,
)
from router.decide.commands.load.trial import ask_first, hold_policy, read_trial
from router.policies.model.canaries import GuardError, parse_span_ms
from router.sdk import Answer, Client
from router.serve.decide_subscription import build_request_limits
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command

# as in the bench of a checkout, so that figures compare
DEFAULT_IN_FLIGHT = 256
WARM_S = 1.0
LEAST_S = 1.0  # the first request finds a router cold
BARE_WARM_S, BARE_S = 0.5, 2.0
MAX_PROCESSES, MAX_IN_FLIGHT, MAX_RATE = 64, 100_000, 1_000_000
MAX_TIMEOUT_S = 600.0


# -- What a user types.

RequestsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|-",
        help="One JSON request a line, sent in turn, each time with an id of its own.",
    ),
]
Payload = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT|@FILE|SIZE",
        help=f"Or one request with this payload; 300 or 16KB is a size. Default: {DEFAULT_PAYLOAD}.",
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="Open loop: so many requests a second, whatever is answered.",
        min=0.001,
        max=MAX_RATE,
    ),
]
InFlight = Annotated[
    int | None,
    typer.Option(
        "--in-flight",
        metavar="N",
        help=f"Closed loop: so many wait for an answer. Default: {DEFAULT_IN_FLIGHT}.",
        min=1,
        max=MAX_IN_FLIGHT,
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--processes",
        metavar="N",
        help="Processes that send, each its share.",
        min=1,
        max=MAX_PROCESSES,
    ),
]
Span = Annotated[
    str, typer.Option("--for", metavar="TIME", help="Measured for so long: 30s, 10m, 1h.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="A request that waits longer counts as timeout.",
        min=0.001,
        max=MAX_TIMEOUT_S,
    ),
]
Push = Annotated[
    bool, typer.Option("--push", help="Push an assignment to a worker with each, as well.")
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Decide by this policy: put under a name of its own, deleted at the end.",
        dir_okay=False,
    ),
]
PolicyId = Annotated[
    str | None,
    typer.Option("--policy-id", metavar="NAME", help="Decide by a policy that is there."),
]
Tenant = Annotated[
    str | None,
    typer.Option(help=f"The tenant of all. Default: each request's own, else {DEFAULT_TENANT}."),
]
Type = Annotated[
    str | None,
    typer.Option("--type", help=f"The message's type, with --payload. Default: {DEFAULT_TYPE}."),
]
Subject = Annotated[
    str | None, typer.Option(metavar="SUBJECT", help="Where to ask. Default: decide.subject.")
]
NoBare = Annotated[bool, typer.Option("--no-bare", help="Measure no bare loop before it.")]


@command()
async def load(
    session: CommandSession,
    *,
    requests: RequestsFile = None,
    payload: Payload = None,
    rate: Rate = None,
    in_flight: InFlight = None,
    processes: Processes = 1,
    span: Span = "30s",
    timeout_s: Timeout = 5.0,
    push: Push = False,
    policy: PolicyFile = None,
    policy_id: PolicyId = None,
    tenant: Tenant = None,
    type_: Type = None,
    subject: Subject = None,
    no_bare: NoBare = False,
) -> int:
    """Measure a running router with requests of your own: decisions a second, latencies, errors by
    code.

    Latencies are p50, p99 and p99.9, right within 0.8 %, of all requests; one without an answer
    counts with the timeout. With --rate a latency counts from when its request was due: a stall is
    counted for all that came due in it (no coordinated omission). A second of warm-up is not
    counted. Before it, the same load is answered by a process that decides nothing: the bare loop.
    Ctrl-C ends it, and shows what was measured until then.

    Exit status: 0 it ran, 1 the policy was refused, 2 wrong use or a wrong request, 3 no broker or
    no router, 130 interrupted.

    Example:  router bench load --requests ./requests.jsonl --rate 2000 --for 1m
    """
    settings = session.settings
    plan = _build_plan(rate, in_flight, processes, subject or settings.decide.subject)
    plan = msgspec.structs.replace(plan, for_s=_read_span_s(span), timeout_s=timeout_s)
    trial = read_trial(policy, policy_id, as_json=session.as_json)
    changes = RequestChanges(tenant, policy_id if trial is None else trial.name, push)
    bodies = _read_bodies(requests, payload, type_, changes)
    connection = (await session.open_jetstream()).connection
    bodies.check(build_request_limits(settings), connection.max_payload)
    run = LoadRun(session, plan, bodies, processes, is_pushed=push)
    async with hold_policy(session, trial), Client(settings.nats, subject=plan.subject) as client:
        answer = await ask_first(
            client, run.build_first, waits=trial is not None, timeout_s=max(timeout_s, LEAST_S)
        )
        figures = await run.measure(answer, has_bare=not no_bare)
    session.emit_one(figures, lambda: print_figures(figures))
    return exit_codes.INTERRUPTED if figures["interrupted"] else exit_codes.OK


# -- What the options say.


def _build_plan(
    rate: float | None, in_flight: int | None, processes: int, subject: str
) -> LoopPlan:
    if rate is not None and in_flight is not None:
        raise typer.BadParameter("give --rate or --in-flight: a loop is open or closed")
    if not ids.is_literal_subject(subject):
        raise typer.BadParameter("is no subject to publish to", param_hint="--subject")
    if rate is not None:
        return LoopPlan(subject=subject, rate=rate, warm_s=WARM_S)
    many = in_flight or max(DEFAULT_IN_FLIGHT, processes)
    if many < processes:
        raise typer.BadParameter(
            f"{many} in flight are too few for {processes} processes", param_hint="--in-flight"
        )
    return LoopPlan(subject=subject, in_flight=many, warm_s=WARM_S)


def _read_span_s(text: str) -> float:
    try:
        return parse_span_ms(text) / 1000
    except GuardError as exc:
        raise typer.BadParameter(str(exc), param_hint="--for") from None


def _read_bodies(
    requests: str | None, payload: str | None, message_type: str | None, changes: RequestChanges
) -> RequestBodies:
    if changes.tenant is not None and not ids.is_scoped(changes.tenant):
        raise typer.BadParameter("is no tenant's id", param_hint="--tenant")
    if requests is None:
        return make_request(payload, message_type or DEFAULT_TYPE, changes)
    if payload is not None or message_type is not None:
        raise typer.BadParameter("give --requests, or --payload and --type")
    return read_requests(requests, changes)


# -- The run.


class LoadRun:
    """One load: the bare loop, the router, and the figures of both."""

    def __init__(
        self,
        session: CommandSession,
        plan: LoopPlan,
        bodies: RequestBodies,
        processes: int,
        *,
        is_pushed: bool,
    ) -> None:
        self._session = session
        self._plan = plan
        self._rests = bodies.rests
        self._count = processes
        self._is_pushed = is_pushed
        self._name = f"load-{uuid4().hex[:12]}"
        self._is_interrupted = False
        self._line = LiveLine(is_quiet=session.as_json)

    def build_first(self, number: int) -> bytes:
        """A request that is no part of the load."""
        return write_request(f"{self._name}-first-{number}", self._rests[0])

    async def measure(self, answer: Answer, *, has_bare: bool) -> dict[str, Any]:
        """The figures. `answer`: what the bare loop's responder sends."""
        nats = self._session.settings.nats
        bare: dict[str, Any] | None = None
        total = LoadTally()
        async with start_processes(self._count, nats, self._rests, self._name) as processes:
            with self._stop_at_signals(processes), contextlib.closing(self._line):
                if has_bare:
                    bare = await self._measure_bare(processes, answer)
                if not self._is_interrupted:
                    self._line.begin("load", WARM_S + self._plan.for_s)
                    total = add_up(await processes.run(self._plan, self._line.hear))
        return self._combine(total, bare)

    async def _measure_bare(self, processes: AskingProcesses, answer: Answer) -> dict[str, Any]:
        """The same load, answered at once; or why there is none."""
        plan = msgspec.structs.replace(self._plan, warm_s=BARE_WARM_S, for_s=BARE_S)
        connection = (await self._session.open_jetstream()).connection
        self._line.begin("bare loop", BARE_WARM_S + BARE_S)
        try:
            async with start_responder(self._session.settings.nats, answer.raw) as subject:
                # who may listen to an inbox may not always publish there
                connection.publish_nowait(subject)
                await connection.require_permission(subject)
                plan = msgspec.structs.replace(plan, subject=subject)
                total = add_up(await processes.run(plan, self._line.hear))
        except PermissionDenied as exc:
            return {"unavailable": str(exc)}
        figures = compute_figures(total, self._count)
        return {name: figures[name] for name in ("requests_per_s", "latency_ms", "load_cpu")}

    def _combine(self, total: LoadTally, bare: dict[str, Any] | None) -> dict[str, Any]:
        figures = compute_figures(total, self._count)
        if bare is not None and "requests_per_s" in bare:
            bare["ratios"] = compute_ratios(figures, bare)
        skipped = total.warnings.get("assignment_skipped", 0)
        return {
            "subject": self._plan.subject,
            "rate": self._plan.rate or None,
            "in_flight": self._plan.in_flight or None,
            "processes": self._count,
            **figures,
            "late_ms": total.delays.list_figures() if self._plan.rate else None,
            "assignments": total.answered - skipped if self._is_pushed else None,
            "resolution": RESOLUTION,
            "bare": bare,
            "interrupted": self._is_interrupted,
        }

    @contextlib.contextmanager
    def _stop_at_signals(self, processes: AskingProcesses) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM ends the run, and what was measured is shown; the second ends
        the command.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self._is_interrupted = True
            processes.stop()
            forget()

        def forget() -> None:
            for number in numbers:
                loop.remove_signal_handler(number)

        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, stop)
        try:
            yield
        finally:
            forget()
