"""A worker and a relay of the matrix: each message that they handle ends in the same stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.client import Client

from router.core.errors import Poison
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology, bucket, create
from router.mailbox.outbox.publisher import OutboxPublisher
from router.mailbox.postgres import Database, DatabaseConfig
from router.sdk import ExecAssignment, StepResult, Worker, WorkerTopology
from tests.rigs.refusals.stages import OTHERS, WITHIN_S, Stage, count_missing
from tests.support.agents import publish_until_stored
from tests.support.delivery import connected
from tests.support.mailbox import (
    STREAM,
    OutboxStream,
    a_relay,
    add_events,
    an_event,
    fill_outbox,
    row,
)
from tests.support.postgres import rows
from tests.support.refusals import FILLER
from tests.support.sdk import ACK_WAIT_S, a_body, run_workers, with_options
from tests.support.waiting import until

Json = dict[str, Any]

DURABLE = "caf-worker"
LARGE = "x" * 20_000
TOPOLOGY = WorkerTopology(
    stream="W_ASSIGNMENTS",
    attempts="W_ATTEMPTS",
    results="w.result",
    acks="w.ack",
    letters="w.dlq",
    heartbeats="w.heartbeat",
)
STREAMS = {
    "assignments": "W_ASSIGNMENTS",
    "results": "W_RESULTS",
    "acknowledgements": "W_ACKS",
    "dead letters": "W_DLQ",
}
SUBJECTS = {
    "W_ASSIGNMENTS": "w.assign",
    "W_RESULTS": "w.result",
    "W_ACKS": "w.ack",
    "W_DLQ": "w.dlq",
}
TASKS = {"results": "large", "dead letters": "refused", "attempts": "late"}


class WorkerStage:
    """A worker: it refuses one assignment for good, sends one back once, answers one at length and
    the others shortly.
    """

    def __init__(self, nc: Client, jetstream: JetStream) -> None:
        self._nc, self._jetstream = nc, jetstream
        self.stores = {**STREAMS, "attempts": f"KV_{TOPOLOGY.attempts}"}
        self._tries = 0

    def accepts(self, assignment: ExecAssignment) -> str | None:
        self._tries += _task_of(assignment) == "late"
        return "not yet" if _task_of(assignment) == "late" and self._tries == 1 else None

    def handle(self, assignment: ExecAssignment) -> StepResult:
        if _task_of(assignment) == "refused":
            raise Poison("refused")
        return StepResult(
            output={"text": LARGE if _task_of(assignment) == "large" else "short"}, cost=0.5
        )

    async def need(self, store: str) -> str:
        await self._push(
            "needs-it", TASKS.get(store, "short"), LARGE if store == "assignments" else ""
        )
        await until(self._is_booked, within_s=WITHIN_S)
        if "needs-it" in (done := await self._read("W_RESULTS")):
            return (
                "done"
                if done["needs-it"]["status"] == "success"
                else str(done["needs-it"]["error_code"])
            )
        return "dead letter" if "needs-it" in await self._read("W_DLQ") else "left out"

    async def _push(self, name: str, task: str, padding: str = "") -> None:
        payload = {"text": task, "padding": padding}
        body = a_body(
            name, job={"type": "chat", "payload": payload}, **with_options(deadline_ms=600_000)
        )
        await publish_until_stored(
            self._nc.jetstream(), json.dumps(body).encode(), "w.assign", {"Nats-Msg-Id": name}
        )

    async def _is_booked(self) -> bool:
        stream = await self._jetstream.stream(TOPOLOGY.stream)
        info = await self._jetstream.consumer(TOPOLOGY.stream, DURABLE)
        if stream is None or info is None or info["num_ack_pending"]:
            return False
        return bool(info["delivered"]["stream_seq"] >= stream["state"]["last_seq"])

    async def _read(self, stream: str) -> dict[str, Json]:
        """What stands in a stream, by the assignment that it names."""
        found, sequence = {}, 0
        while (message := await self._jetstream.get_next(stream, ">", sequence + 1)) is not None:
            sequence = message.sequence
            if message.data != FILLER:
                body = json.loads(message.data)
                found[str(body["assignment_id"])] = body
        return found

    async def ask_others(self) -> int:
        wanted = {f"other-{number}" for number in range(OTHERS)}
        await asyncio.gather(*(self._push(name, "short") for name in wanted))

        async def list_missing() -> set[str]:
            return wanted - set(await self._read("W_RESULTS"))

        return await count_missing(list_missing)

    async def is_troubled(self) -> bool:
        info = await self._jetstream.consumer(TOPOLOGY.stream, DURABLE)
        return info is not None and info["num_ack_pending"] > 0

    async def is_well(self) -> bool:
        return await self._is_booked()

    async def make_whole(self) -> None:
        """It makes its own durable again."""


def _task_of(assignment: ExecAssignment) -> object:
    return assignment.payload["text"]


@asynccontextmanager
async def a_worker_stage(nc: Client, url: str) -> AsyncIterator[Stage]:
    async with connected(url) as connection:
        jetstream = JetStream(connection)
        streams = (StreamSpec(name=name, subjects=(subject,)) for name, subject in SUBJECTS.items())
        await create(jetstream, Topology((*streams, bucket(TOPOLOGY.attempts, ttl=60))))
        stage = WorkerStage(nc, jetstream)
        options: Json = {
            "subject": "w.assign",
            "accepts": stage.accepts,
            "topology": TOPOLOGY,
            "ack_wait_s": ACK_WAIT_S,
        }
        async with run_workers(
            Worker(url, stage.handle, worker_id="w-1", heartbeat_s=0.05, **options)
        ):
            yield stage


class RelayStage:
    """A relay of the outbox: a long event, and short ones of other aggregates."""

    def __init__(self, dsn: str, relay: OutboxPublisher) -> None:
        self._dsn, self._relay = dsn, relay
        self.stores = {"events": STREAM}

    async def need(self, store: str) -> str:
        [event] = await add_events(self._dsn, an_event("long", {"n": 0, "text": LARGE}))
        found = await row(self._dsn, event)
        while not (found.is_published or found.is_parked):
            await asyncio.sleep(0.02)
            found = await row(self._dsn, event)
        return "published" if found.is_published else "parked"

    async def ask_others(self) -> int:
        await fill_outbox(self._dsn, OTHERS)

        async def list_missing() -> set[str]:
            found = await rows(
                self._dsn,
                (
                    "SELECT id FROM outbox_events WHERE published_at IS NULL AND aggregate_id "
                    "<> 'long'"
                ),
            )
            return {str(one) for (one,) in found}

        return await count_missing(list_missing)

    async def is_troubled(self) -> bool:
        return self._relay.trouble is not None

    async def is_well(self) -> bool:
        return self._relay.trouble is None

    async def make_whole(self) -> None:
        """It goes on by itself."""


@asynccontextmanager
async def a_relay_stage(url: str, dsn: str) -> AsyncIterator[Stage]:
    async with connected(url) as connection, Database(DatabaseConfig(dsn)) as database:
        place = OutboxStream(JetStream(connection, timeout_s=2.0))
        await place.make_stream()
        async with a_relay(database, place) as relay:
            yield RelayStage(dsn, relay)
