"""Workers of the SDK on streams of their own, and everything that they send."""

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import Any, NoReturn

from router.delivery.wire.api import JetStream, StoredMessage
from router.delivery.wire.connection import Connection
from router.delivery.wire.topology import StreamSpec, Topology, bucket, create
from router.sdk import ExecAssignment, StepResult, Worker, WorkerTopology
from tests.support.cli import COMMAND, clean_environment
from tests.support.delivery import connected
from tests.support.patient_client import PATIENCE_S
from tests.support.waiting import slack, until

_PLACES = itertools.count(1)

Json = dict[str, Any]

ACK_WAIT_S = 30.0  # more than a busy machine stands still for


def a_body(name: str = "a-1", **fields: Any) -> Json:
    """A whole ExecAssignment as JSON; `options` and `job` may be given whole."""
    return {
        "version": "1",
        "assignment_id": name,
        "request_id": f"r-{name}",
        "tenant_id": "acme",
        "trace_id": f"t-{name}",
        "executor": {"provider_id": "openai", "channel": "nats"},
        "job": {"type": "chat", "payload": {"text": "hello"}},
        "options": {
            "priority": 50,
            "deadline_ms": 5000,
            "retry": {"max_attempts": 2, "backoff_ms": 1},
        },
        "correlation": {},
        "decision": {
            "provider_id": "openai",
            "reason": "weighted",
            "priority": 50,
            "expected_latency_ms": 800,
            "expected_cost": 0.012,
            "metadata": {"policy_id": "default", "policy_version": "1"},
        },
        "metadata": {},
        **fields,
    }


def with_options(deadline_ms: int = 5000, attempts: int = 2) -> Json:
    return {
        "options": {
            "priority": 50,
            "deadline_ms": deadline_ms,
            "retry": {"max_attempts": attempts, "backoff_ms": 1},
        }
    }


class WorkerStreams:
    """Assignments, results, dead letters and acks in streams; heartbeats heard."""

    def __init__(self, connection: Connection, url: str, name: str) -> None:
        name = f"{name}_{next(_PLACES)}"
        self.url = url
        self.connection = connection
        self.jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        self.beats: list[Json] = []
        self.acks: list[Json] = []
        self.subject = f"{name}.assign"
        upper = name.upper()
        self.topology = WorkerTopology(
            stream=f"{upper}_ASSIGNMENTS",
            attempts=f"{upper}_ATTEMPTS",
            results=f"{name}.result",
            acks=f"{name}.ack",
            letters=f"{name}.dlq",
            unread=f"{name}.unread",
            heartbeats=f"{name}.heartbeat",
        )
        self.said = f"{upper}_SAID"

    async def open(self) -> None:
        streams = (
            StreamSpec(name=self.topology.stream, subjects=(self.subject,)),
            StreamSpec(
                name=self.said,
                subjects=(self.topology.results, self.topology.letters, self.topology.unread),
                allow_atomic=True,
            ),
            bucket(self.topology.attempts, ttl=60),
        )
        assert await create(self.jetstream, Topology(streams)) == []
        await self.connection.subscribe_direct(
            self.topology.heartbeats, lambda _s, _r, data, _h: self.beats.append(json.loads(data))
        )
        await self.connection.subscribe_direct(
            self.topology.acks, lambda _s, _r, data, _h: self.acks.append(json.loads(data))
        )
        await self.connection.flush()

    def worker(
        self, handler: Callable[[ExecAssignment], Any], worker_id: str = "w-1", **settings: Any
    ) -> Worker:
        given = {
            "subject": self.subject,
            "topology": self.topology,
            "ack_wait_s": ACK_WAIT_S,
            "heartbeat_s": 0.05,
            **settings,
        }
        return Worker(self.url, handler, worker_id=worker_id, **given)

    def start_process(self, *options: str) -> "subprocess.Popen[bytes]":
        """`router worker --echo`; the caller ends it."""
        environ = {
            "ROUTER_ASSIGNMENT__SUBJECTS": self.subject,
            "ROUTER_RESULTS__SUBJECT": self.topology.results,
            "ROUTER_ACKS__SUBJECT": self.topology.acks,
            "ROUTER_STREAMS__ASSIGNMENTS__NAME": self.topology.stream,
            "ROUTER_BUCKETS__ATTEMPTS__NAME": self.topology.attempts,
        }
        command = [
            *COMMAND,
            "worker",
            "--echo",
            "--nats-url",
            self.url,
            "--ack-wait",
            "1",
            *options,
        ]
        return subprocess.Popen(command, stdout=PIPE, stderr=PIPE, env=clean_environment(environ))

    async def push(self, *bodies: Json | bytes) -> None:
        for body in bodies:
            data, headers = (
                (body, {})
                if isinstance(body, bytes)
                else (json.dumps(body).encode(), {"Nats-Msg-Id": body["assignment_id"]})
            )
            await self.connection.jetstream(timeout=60).publish(self.subject, data, headers=headers)

    async def results(self, count: int = 1) -> list[Json]:
        """The results that are stored, once there are so many."""
        await until(lambda: self._has(self.topology.results, count), what=f"{count} results")
        return [json.loads(stored.data) for stored in await self.stored(self.topology.results)]

    async def letters(self, count: int = 1) -> list[Json]:
        await until(lambda: self._has(self.topology.letters, count), what=f"{count} dead letters")
        return [json.loads(stored.data) for stored in await self.stored(self.topology.letters)]

    async def unread(self, count: int = 1) -> list[Json]:
        """What stands in the reports of bytes that are no assignment."""
        await until(lambda: self._has(self.topology.unread, count), what=f"{count} reports")
        return [
            json.loads(stored.data)["data"] for stored in await self.stored(self.topology.unread)
        ]

    async def settled(self) -> None:
        """Nothing is left to do for the durable."""
        await until(self._is_booked)

    async def stored(self, subject: str) -> list[StoredMessage]:
        messages, sequence = [], 1
        while (stored := await self.jetstream.get_next(self.said, subject, sequence)) is not None:
            messages.append(stored)
            sequence = stored.sequence + 1
        return messages

    async def _has(self, subject: str, count: int) -> bool:
        return len(await self.stored(subject)) >= count

    async def _is_booked(self) -> bool:
        info = await self.jetstream.consumer(self.topology.stream, "caf-worker")
        stream = await self.jetstream.stream(self.topology.stream)
        if info is None or stream is None or info["num_ack_pending"]:
            return False
        # num_pending may lag behind a publish
        return info["delivered"]["stream_seq"] >= stream["state"]["last_seq"]


@asynccontextmanager
async def some_worker_streams(url: str, name: str) -> AsyncIterator[WorkerStreams]:
    async with connected(url) as connection:
        place = WorkerStreams(connection, url, name)
        await place.open()
        yield place


@asynccontextmanager
async def run_workers(*workers: Worker) -> AsyncIterator[None]:
    """These workers, taking assignments; drained in the end."""
    ready = [asyncio.Event() for _ in workers]
    tasks = [
        asyncio.create_task(worker.run(lambda _, event=event: event.set()))
        for worker, event in zip(workers, ready, strict=True)
    ]
    try:
        async with asyncio.timeout(60 * slack()):
            for event in ready:
                await event.wait()
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def a_step(**fields: Any) -> StepResult:
    return StepResult(**{"output": {"text": "hi"}, "cost": 0.5, **fields})


def refuse_to_start(_: threading.Thread) -> NoReturn:
    """`threading.Thread.start` where the system has no more threads to give."""
    raise RuntimeError("can't start new thread")
