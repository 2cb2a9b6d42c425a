"""A worker: takes assignments, runs your handler, publishes its results; no assignment is lost when
a process dies.

    import router
    from router import StepResult, Worker

    async def answer(assignment):
        text = await my_model(assignment.payload)
        return StepResult(output=text, cost=0.002)

    router.run(Worker("nats://localhost:4222", answer, worker_id="gpu-1"))

Workers that share a durable share the work. For each assignment: acknowledged, handled
(`attempts`), its result stored (PubAck), and only then is the assignment settled in its stream. So
the assignments of a worker that dies go to the others, and one that was done twice still has one
result: both carry the same message id.

    the handler answers             -> caf.exec.result.v1
    it raises Poison                -> caf.exec.dlq.v1, an ExecResult with its root cause, and no
                                    other result; there goes too
                                       what was refused, or killed its worker, as often as allowed
    these bytes are no assignment   -> caf.deadletter.v1, a report of them
    it is cut off by a drain        -> the assignment goes back, and another worker does it

Before the worker stand its durable (`SharedDurable`) and its heartbeats (`WorkerHeartbeat`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from router.contracts import assignment
from router.contracts.heartbeat import STOPPED
from router.core import ids
from router.core.clock import now_ms
from router.core.errors import BrokerDenied, Misconfigured, RouterError
from router.core.user_functions import require_call
from router.delivery.consume.consumer import Consumer, Deadlines
from router.delivery.consume.subscription import ConsumerOptions, Subscription
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.connection import Connection
from router.delivery.wire.topology import NANOS_PER_S, ConsumerSpec, Topology, create, restore
from router.process.observability.tracing import trace_dead_letter, trace_handler
from router.process.supervision import Child, Intensity, Supervisor
from router.sdk import reports
from router.sdk.assignments import DEFAULT_TOPOLOGY, Accepts, Assignments, OnDone, WorkerTopology
from router.sdk.attempts import Attempts
from router.sdk.connect import build_held_connection, build_jetstream
from router.sdk.consumer_logger import ConsumerLogger
from router.sdk.signals import run_until_signal
from router.sdk.start_point import START_POINTS, Start, StartPoint
from router.sdk.step import Handler
from router.shell.host import ProcessHost

if TYPE_CHECKING:
    from router.config import NatsConfig

# -- The worker.

DURABLE = "caf-worker"
CONSUMER_CHECK_S = 0.25
WINDOWS_AHEAD = 3  # times the slots
_FULL_RETRY_S = 60.0  # seconds: a redelivered assignment is done again
_A_DAY_S = 86_400.0  # the assignment's own deadline is what ends a handler


class Worker:
    """One process' share of the work. `run` until cancelled, or until SIGTERM or Ctrl-C; then it
    drains. It may run again afterwards.

    `handler`: async, or a plain function (then in one of `slots` threads). `subject`: which
    assignments, wildcards allowed, None = all of the stream. `slots`: assignments at once; while
    the handler answers without waiting, three times as many more are pulled ahead. `accepts`: a
    plain function that says why an assignment is not taken, None = it is. `on_done`: a plain
    function that hears of every assignment that was handled, just before its result is stored: the
    assignment, the step, milliseconds. What it raises is logged, and changes nothing. `drain_s`:
    seconds that work in flight may take after a stop. `ack_wait_s`: of the durable, where this
    worker makes it: after so many seconds without a sign of a worker, its assignments go to others.
    `start`: what becomes of assignments that were stored before the durable was made, by the worker
    that makes it (`start_point`): "unanswered" are done, or none ("new"), or all, also those with a
    result.
    """

    def __init__(
        self,
        nats: str | NatsConfig,
        handler: Handler,
        *,
        worker_id: str,
        subject: str | None = assignment.ASSIGNMENT_SUBJECT,
        durable: str = DURABLE,
        slots: int = 16,
        heartbeat_s: float = 5.0,
        ack_wait_s: float = 30.0,
        max_attempts: int = 3,
        drain_s: float = 10.0,
        encoding: str = reports.JSON_ENCODING,
        accepts: Accepts = lambda _: None,
        on_done: OnDone = lambda *_: None,
        topology: WorkerTopology = DEFAULT_TOPOLOGY,
        start: Start = "unanswered",
    ) -> None:
        _check(worker_id, durable, slots, encoding, start)
        require_call("handler", handler, "assignment")
        require_call("accepts", accepts, "assignment", is_async=False)
        require_call("on_done", on_done, "assignment", "step", "milliseconds", is_async=False)
        self.worker_id = worker_id
        self._nats = nats
        self._slots = slots
        self._heartbeat_s = heartbeat_s
        self._drain_s = drain_s
        self._topology = topology
        self._start = start
        self._handler = handler
        self._durable = worker_durable(
            topology.stream, durable, subject=subject, ack_wait_s=ack_wait_s
        )
        self._options = partial(_make_options, slots, max_attempts)
        self._logger = ConsumerLogger(durable)
        self._assignments = partial(
            Assignments,
            worker_id=worker_id,
            encoding=encoding,
            accepts=accepts,
            on_done=on_done,
            topology=topology,
        )

    async def run(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """Work until cancelled, or until a signal ends the program. `on_ready` gets the server's
        URL once, before the first assignment.

        Raises BrokerUnavailable when no server answers at the start, BrokerDenied when it refuses
        the login, has no JetStream or gives no permission, ConnectionStuck when only a new process
        comes through, Misconfigured when the durable is there with another filter. A stream that is
        not there yet is waited for.
        """
        await run_until_signal(self.work(on_ready))

    async def work(self, on_ready: Callable[[str], None] = lambda _: None) -> None:
        """The same, until cancelled, for a program that handles signals itself."""
        host = ProcessHost()
        async with host.hold(build_held_connection(self._nats, "worker")) as (connection,):
            jetstream = build_jetstream(self._nats, connection)
            start_point = StartPoint(
                jetstream, self._topology.stream, self._topology.results, self._start
            )
            durable = SharedDurable(jetstream, self._durable)
            attempts = Attempts(self._handler, self._slots)
            try:
                await self._wait_for_durable(jetstream, start_point, durable)
                on_ready(connection.address)
                await host.run(self._tree(jetstream, start_point, durable, attempts))
            finally:
                attempts.close()

    def _tree(
        self,
        jetstream: JetStream,
        start_point: StartPoint,
        durable: SharedDurable,
        attempts: Attempts,
    ) -> Supervisor:
        consumer = self._consumer(jetstream, start_point, durable, attempts)
        heartbeat = WorkerHeartbeat(
            jetstream.connection,
            self._topology.heartbeats,
            self.worker_id,
            interval_s=self._heartbeat_s,
            capacity=self._slots,
            in_hand=lambda: (
                len(consumer.processor.in_flight) if consumer.processor is not None else 0
            ),
        )
        children = (
            # the first to start is the last to end: it says `stopped`
            Child("heartbeats", heartbeat.run),
            Child(
                "assignments",
                lambda: _consume(consumer, heartbeat, attempts),
                shutdown_s=self._drain_s + 5,
            ),
        )
        return Supervisor("worker", children, intensity=Intensity(5, 30))

    def _consumer(
        self,
        jetstream: JetStream,
        start_point: StartPoint,
        durable: SharedDurable,
        attempts: Attempts,
    ) -> Consumer:
        assignments = self._assignments(jetstream.connection, attempts, start_point=start_point)
        subscription = Subscription(
            stream=self._durable.stream,
            durable=self._durable.durable,
            options=self._options(durable.ack_wait_s),
            handle=trace_handler(assignments.handle),
            dead_letter=trace_dead_letter(assignments.build_dead_letter),
            observer=self._logger,
            stream_of=partial(_name_stream, self._topology),
        )
        consumer = Consumer(
            subscription,
            jetstream,
            attempts_bucket=self._topology.attempts,
            create=partial(self._create, jetstream, start_point),
            on_found=partial(self._read_durable, durable, start_point),
            deadlines=Deadlines(self._drain_s, self._drain_s + 2),
        )
        durable.on_ack_wait = partial(_set_ack_wait, consumer)
        return consumer

    async def _read_durable(
        self, durable: SharedDurable, start_point: StartPoint, info: Json
    ) -> None:
        """Called for the durable that is found, and for each that takes its place while the worker
        works. Raises Misconfigured.
        """
        try:
            await durable.read(info)
        except Misconfigured as exc:
            self._logger.on_start_failure(exc)
            raise
        await start_point.read_note(info)

    async def _wait_for_durable(
        self, jetstream: JetStream, start_point: StartPoint, durable: SharedDurable
    ) -> None:
        create, on_found = (
            partial(self._create, jetstream, start_point),
            partial(self._read_durable, durable, start_point),
        )
        while True:
            try:
                if (
                    await restore(
                        jetstream, self._durable.stream, self._durable.durable, create, on_found
                    )
                    is not None
                ):
                    return
            except (BrokerDenied, Misconfigured):
                raise  # waiting cannot help
            except RouterError as exc:  # the broker is unavailable again: tried again
                self._logger.on_start_failure(exc)
            await asyncio.sleep(CONSUMER_CHECK_S)

    async def _create(self, jetstream: JetStream, start_point: StartPoint) -> None:
        """Create the durable. The router makes the stream; this waits for it."""
        if await jetstream.stream(self._durable.stream) is None:
            self._logger.on_missing_stream(self._durable.stream)
            return
        await create(
            jetstream, Topology((), (replace(self._durable, metadata=await start_point.note()),))
        )


def worker_durable(
    stream: str = DEFAULT_TOPOLOGY.stream,
    durable: str = DURABLE,
    *,
    subject: str | None = assignment.ASSIGNMENT_SUBJECT,
    ack_wait_s: float = 30.0,
) -> ConsumerSpec:
    """The durable that workers share. A worker creates it where it is missing, unless an operator
    has created it.
    """
    return ConsumerSpec(stream=stream, durable=durable, filter_subject=subject, ack_wait=ack_wait_s)


def _make_options(slots: int, max_attempts: int, ack_wait_s: float) -> ConsumerOptions:
    """Nothing is pulled ahead, because an assignment that waits here could be done elsewhere.

    But for handlers that answer at once, which then get theirs in windows: small ones cost half of
    the worker's time.
    """
    return ConsumerOptions(
        max_attempts=max_attempts,
        ack_wait=ack_wait_s,
        prefetch=slots + slots * WINDOWS_AHEAD,
        prefetch_ahead=slots * WINDOWS_AHEAD,
        slots=slots,
        handler_timeout=_A_DAY_S,
        # full dead letters hold back what was given up, not the other assignments
        max_waiting=max(1, slots // 4),
        keeps_work=True,
        waits_alone_for_refusal=True,
        full_retry=_FULL_RETRY_S,
    )


def _name_stream(topology: WorkerTopology, subject: str) -> str | None:
    """What tells the streams of a worker's effects apart, for their batches: a worker does not know
    the streams' names, and each of these subjects is stored in one.
    """
    batched = (topology.results, topology.letters, topology.unread)
    return subject if subject in batched else None


def _set_ack_wait(consumer: Consumer, ack_wait_s: float) -> None:
    if consumer.processor is not None:
        consumer.processor.in_flight.set_ack_wait(ack_wait_s)


async def _consume(consumer: Consumer, heartbeat: WorkerHeartbeat, attempts: Attempts) -> None:
    """Run the consumer. Before it drains, publish a heartbeat that says so, and hand back what
    waits for a thread.
    """
    work = asyncio.create_task(consumer.run())
    try:
        await asyncio.wait({work})
    finally:
        if not work.done():
            heartbeat.drain()
            attempts.stop_waiting()
            work.cancel()
        await work


def _check(worker_id: str, durable: str, slots: int, encoding: str, start: str) -> None:
    if not ids.is_opaque(worker_id):
        raise Misconfigured(
            "worker_id", "should be 1..128 printable ASCII characters without spaces"
        )
    if not ids.is_token(durable):
        raise Misconfigured("durable", "should be 1..64 of A-Z a-z 0-9 _ -")
    if slots < 1:
        raise Misconfigured("slots", "should be 1 or more")
    if encoding not in reports.ENCODINGS:
        raise Misconfigured("encoding", f"should be one of {', '.join(reports.ENCODINGS)}")
    if start not in START_POINTS:
        raise Misconfigured("start", f"should be one of {', '.join(START_POINTS)}")


# -- The durable as the server has it: another worker, or an operator, may have made it with
# other settings.
#
# ack wait    the durable's own says how often in-progress signals go out: by a longer one, others
# would get work in progress
# filter      must be the one that this worker asks for: else it would do other work, or wait for
# what never comes
# the rest    is used as it is

EVERY_SUBJECT = "every subject"


class SharedDurable:
    """`wanted`: the durable as this worker would make it. `on_ack_wait` gets each ack wait that is
    read, in seconds.
    """

    def __init__(self, jetstream: JetStream, wanted: ConsumerSpec) -> None:
        self._jetstream = jetstream
        self._wanted = wanted
        self.ack_wait_s = wanted.ack_wait
        self.on_ack_wait: Callable[[float], None] = lambda _: None

    async def read(self, info: Json) -> None:
        """Read what the server tells of it. Raises Misconfigured for another filter,
        BrokerUnavailable.
        """
        config = info["config"]
        await self._check_filter(_filters_of(config))
        self.ack_wait_s = config.get("ack_wait", 0) / NANOS_PER_S or self._wanted.ack_wait
        self.on_ack_wait(self.ack_wait_s)

    async def _check_filter(self, has: set[str]) -> None:
        wanted = _filters_of(self._wanted.to_json())
        if has == wanted or (
            not (has and wanted) and (has or wanted) == await self._read_subjects()
        ):
            return
        raise Misconfigured(
            "subject",
            f"the durable {self._wanted.durable} of {self._wanted.stream} gets "
            f"{_list(has)}, and this worker asks for {_list(wanted)}: "
            "ask for the same, name another durable, or delete that one",
        )

    async def _read_subjects(self) -> set[str]:
        """The stream's: no filter is the same as all of them."""
        info = await self._jetstream.stream(self._wanted.stream)
        return set(info["config"].get("subjects") or ()) if info is not None else set()


def _filters_of(config: Json) -> set[str]:
    subject_filter = config.get("filter_subject")
    return {subject_filter} if subject_filter else set(config.get("filter_subjects") or ())


def _list(subjects: Iterable[str]) -> str:
    return ", ".join(sorted(subjects)) or EVERY_SUBJECT


# -- The heartbeats: the worker's id, its load, and whether it is draining
# (docs/reference/contracts.md#heartbeats).

IDLE = "idle"
BUSY = "busy"
DRAINING = "draining"


class WorkerHeartbeat:
    """Publishes one heartbeat every `interval_s` seconds; `in_hand` returns how many assignments
    are in flight, of at most `capacity`.
    """

    def __init__(
        self,
        connection: Connection,
        subject: str,
        worker_id: str,
        *,
        interval_s: float,
        capacity: int,
        in_hand: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._worker_id = worker_id
        self._interval_s = interval_s
        self._capacity = capacity
        self._in_hand = in_hand
        self._is_draining = False

    async def run(self) -> None:
        """A supervised child; the last heartbeat says `stopped`."""
        try:
            while True:
                self._beat()
                await asyncio.sleep(self._interval_s)
        finally:
            self._say(STOPPED, 0)

    def drain(self) -> None:
        """The worker accepts no new work from now on. It publishes that at once, since routers
        choose workers by it.
        """
        self._is_draining = True
        self._beat()

    def _beat(self) -> None:
        in_hand = self._in_hand()
        self._say(DRAINING if self._is_draining else BUSY if in_hand else IDLE, in_hand)

    def _say(self, status: str, in_hand: int) -> None:
        if not self._connection.is_connected:
            return  # a heartbeat that is sent only after a reconnect would be out of date
        beat = {
            "version": "1",
            "worker_id": self._worker_id,
            "timestamp": now_ms(),
            "status": status,
            "load": round(min(1.0, in_hand / self._capacity), 3),
            "capacity": self._capacity,
            "interval_ms": max(1, round(self._interval_s * 1000)),
        }
        self._connection.publish_nowait(self._subject, orjson.dumps(beat))
