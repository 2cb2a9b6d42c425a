"""An inbox at work in this process, its stream, its handler's service, and what both sides hold."""

import asyncio
import contextlib
import json
import socket
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import uvicorn
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError
from starlette.applications import Starlette

from router.config import Settings
from router.config.settings import BucketsConfig
from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core.errors import Misconfigured
from router.core.message import Message
from router.delivery.consume.advisories import ADVISORY_STREAM as ADVISORIES
from router.delivery.consume.advisories import advisories_stream
from router.delivery.settings import BucketConfig, DrainConfig
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import bucket
from router.mailbox.inbox.consumer import NatsJetStreamConsumer
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import HandlerResult, RemoteBreaker
from router.mailbox.inbox.http_handler import HttpEventHandler
from router.mailbox.inbox.inbox import Inbox
from router.mailbox.inbox.observer import InboxStats
from router.mailbox.inbox.rules import inbox_streams
from router.mailbox.inbox.stale_row_scan import StaleRowScan
from router.mailbox.inbox.transactional_strategy import Handler
from router.mailbox.postgres import Database, DatabaseConfig, Driver
from router.mailbox.settings import HandlerConfig, InboxConfig, MailboxConfig
from router.mailbox.streams import events_stream
from router.process.supervision import supervise
from tests.support.broker import Broker
from tests.support.made_anew import create_streams
from tests.support.patient_client import connect_patiently
from tests.support.ports import free_port
from tests.support.postgres import rows

STORED_NS = 1_700_000_000_123_456_789
SUBJECT = "vibespro.event.vibe_created.v1"
STARTS = "T_ATTEMPTS"
EVENTS = events_stream("vibespro")
EFFECTS = (
    "CREATE TABLE IF NOT EXISTS effects (message_id UUID NOT NULL, at TIMESTAMPTZ DEFAULT "
    "clock_timestamp())"
)


def an_id(number: int) -> str:
    """The same UUID for the same number."""
    return str(uuid.UUID(int=number + 1))


def a_message(
    data: bytes = b"{}",
    *,
    subject: str = SUBJECT,
    headers: Mapping[str, str] | None = None,
    deliveries: int = 1,
) -> Message:
    """A delivery as delivery hands it over."""
    return Message(
        subject,
        data,
        headers or {},
        EVENTS.name,
        "sea__from_vibespro",
        7,
        STORED_NS,
        deliveries,
        "",
    )


def some_settings(
    *,
    ack_wait: float = 60.0,
    handler_timeout: float = 30.0,
    nak_after: float | None = None,
    scan: Mapping[str, object] = {},
    drain_ms: tuple[int, int] = (5_000, 6_000),
    max_payload_bytes: int = MAX_PAYLOAD_BYTES,
    max_depth: int = MAX_DEPTH,
    context: str = "sea",
    **inbox: object,
) -> Settings:
    """The specification's inbox. Both times are longer than a busy machine stands still: a test
    names shorter ones. In seconds.
    """
    nak_after_ms = round(nak_after * 1000) if nak_after is not None else None
    handler = HandlerConfig(timeout_ms=round(handler_timeout * 1000))
    given: Any = {
        "ack_wait_ms": round(ack_wait * 1000),
        "nak_after_ms": nak_after_ms,
        "handler": handler,
        "sweep_ms": 3_600_000,
        **scan,
    }
    return Settings(
        node_id="test",
        max_payload_bytes=max_payload_bytes,
        max_depth=max_depth,
        mailbox=MailboxConfig(context=context),
        inbox=InboxConfig.model_construct(**given, **inbox),
        buckets=BucketsConfig(attempts=BucketConfig(name=STARTS)),
        drain=DrainConfig(soft_deadline_ms=drain_ms[0], hard_deadline_ms=drain_ms[1]),
    )


class Running:
    """An inbox at work in this process."""

    def __init__(self, inbox: Inbox, task: "asyncio.Task[None]") -> None:
        self.inbox = inbox
        self._task = task

    @property
    def figures(self) -> InboxStats:
        return self.inbox.observer.stats

    def sweep(self, **scan: object) -> StaleRowScan:
        """A look at any moment."""
        inbox = self.inbox
        return StaleRowScan(
            inbox._jetstream,
            inbox._database,
            inbox._stale_rows._recovery,
            InboxConfig.model_construct(**scan),
        )  # type: ignore[arg-type]

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def result(self) -> None:
        """Raises what it ended of."""
        await self._task

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Misconfigured):
            await self._task


@asynccontextmanager
async def an_inbox(
    url: str,
    dsn: str,
    handler: Handler | str,
    *,
    timeout_s: float = 30.0,
    database_timeout: float = 30.0,
    owner: str | None = None,
    duplicate_window: float = 3600.0,
    breaker: RemoteBreaker | None = None,
    idle_in_transaction: float = 10.0,
    **config: Any,
) -> AsyncIterator[Running]:
    """`handler`: a function of the test's, or the URL of a service, which has `timeout_s`.
    `database_timeout`: for a connection.

    `owner`: whose connection makes the table of effects, where the inbox's own role may have one,
    and that would still be closing.
    """
    connection = await connect({"servers": [url], "reconnect_time_wait": 0.05})
    jetstream = JetStream(connection)
    how = some_settings(**config)
    await create_streams(jetstream, replace(EVENTS, duplicate_window=duplicate_window))
    await create_streams(
        jetstream,
        *inbox_streams(how, advisories_stream(ADVISORIES, 1), bucket(STARTS, ttl=3600)).streams,
    )
    asked = (
        HttpEventHandler(HandlerConfig(url=handler, timeout_ms=round(timeout_s * 1000)), breaker)
        if isinstance(handler, str)
        else handler
    )
    await rows(owner or dsn, EFFECTS)
    async with Database(
        DatabaseConfig(dsn, timeout=database_timeout, idle_in_transaction=idle_in_transaction)
    ) as database:
        inbox = Inbox(how, jetstream, database, asked, store_retry_s=0.05)
        await inbox.open()
        running = Running(inbox, asyncio.create_task(supervise(inbox.tree())))
        try:
            yield running
        finally:
            await running.stop()
            if isinstance(asked, HttpEventHandler):
                await asked.close()
            await connection.close()


async def record(connection: Driver, event: InboxEvent) -> HandlerResult | None:
    """A handler of ours: one effect an event."""
    await connection.execute("INSERT INTO effects (message_id) VALUES (%s)", (event.message_id,))
    return None


async def create_events(broker: Broker) -> None:
    """As the publisher does: before it, an inbox has no durable, and is not announced."""
    connection = await connect({"servers": [broker.url]})
    await create_streams(JetStream(connection), EVENTS)
    await connection.close()


async def publish(
    nc: Client, numbers: Sequence[int] | range, payload: object = None, subject: str = SUBJECT
) -> None:
    """Events with the ids of these numbers, stored when this returns."""
    js = nc.jetstream()
    data = orjson.dumps(payload if payload is not None else {"hello": "world"})
    await asyncio.gather(
        *(js.publish(subject, data, headers={"Nats-Msg-Id": an_id(number)}) for number in numbers)
    )


async def effects(dsn: str) -> list[str]:
    """The message ids of all effects that stand."""
    return [str(row[0]) for row in await rows(dsn, "SELECT message_id FROM effects")]


async def count_unprocessed(dsn: str) -> int:
    return int(
        str(
            (await rows(dsn, "SELECT count(*) FROM inbox_messages WHERE processed_at IS NULL"))[0][
                0
            ]
        )
    )


async def row_of(dsn: str, number: int) -> tuple[object, ...]:
    """processed?, attempts, last_error."""
    query = (
        "SELECT processed_at IS NOT NULL, attempts, last_error FROM inbox_messages WHERE "
        "message_id = %s"
    )
    fetched = await rows(dsn, query, an_id(number))
    return fetched[0] if fetched else ()


async def read_dead_letters(nc: Client, stream: str = "SEA_DLQ") -> list[dict[str, object]]:
    """Every dead letter, oldest first."""
    js = nc.jetstream()
    count = (await js.stream_info(stream)).state.messages
    return [
        json.loads((await js.get_msg(stream, seq=number)).data or b"{}")
        for number in range(1, count + 1)
    ]


async def is_settled(
    nc: Client, stream: str = EVENTS.name, durable: str = "sea__from_vibespro"
) -> bool:
    """The durable exists, everything stored was delivered to it, and nothing is in flight.

    What was stored a moment ago may not be pending yet: the server's consumer hears of it a little
    later. So the stream is asked first how far it goes, and the durable must have come that far.
    """
    js = nc.jetstream()
    try:
        last = (await js.stream_info(stream)).state.last_seq
        info = await js.consumer_info(stream, durable)
    except NotFoundError:
        return False
    reached = info.delivered.stream_seq if info.delivered else 0
    return reached >= last and not info.num_pending and not info.num_ack_pending


class RecordedAcks:
    """The acks, as another connection sees them on their subjects: (stream sequence, delivery,
    ack).
    """

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, str]] = []

    async def hear(self, msg: Msg) -> None:
        part = msg.subject.split(".")
        self.seen.append((int(part[5]), int(part[4]), msg.data.decode()))

    def settling(self, sequence: int) -> list[str]:
        """Without +WPI: how often the server is told that work goes on depends on how fast it goes."""
        return [word for word in self.of(sequence) if word != "+WPI"]

    def of(self, sequence: int, delivery: int | None = None) -> list[str]:
        return [
            words
            for number, which, words in self.seen
            if number == sequence and delivery in (None, which)
        ]


@asynccontextmanager
async def record_acks(url: str, stream: str = EVENTS.name) -> AsyncIterator[RecordedAcks]:
    client = await connect_patiently(url)
    heard = RecordedAcks()
    await client.subscribe(f"$JS.ACK.{stream}.>", cb=heard.hear)
    await client.flush()
    yield heard
    await client.close()


@asynccontextmanager
async def a_service(app: Starlette, port: int = 0) -> AsyncIterator[str]:
    """The URL of an application's `/handle`, served by this loop; `port` 0: any."""
    config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, access_log=False)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", port)) as listener:
        await server.startup([listener])
        serving = asyncio.create_task(server.main_loop())
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/handle"
        finally:
            server.should_exit = server.force_exit = True
            await serving
            await server.shutdown([listener])


@asynccontextmanager
async def says(answer: bytes | None) -> AsyncIterator[str]:
    """The URL of something that answers every request with these bytes; None: it says nothing and
    hangs up.
    """

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is not None:
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/handle"
    server.close()


def nowhere() -> str:
    """A URL where no server listens."""
    return f"http://127.0.0.1:{free_port()}/handle"


async def give_up_on(url: str, count: int, times: int) -> None:
    """Take so many messages so many times, and settle none: what a process that dies of each of
    them does.

    The server's advisory that it gave them up comes with the next pull.
    """
    connection = await connect({"servers": [url]})
    jetstream = JetStream(connection)
    consumer = NatsJetStreamConsumer(jetstream, EVENTS.name, "sea__from_vibespro", wait_s=0.2)
    taken = 0
    while (
        taken < count * times
        or (await jetstream.stream(ADVISORIES) or {})["state"]["messages"] < count
    ):
        taken += len(await consumer.fetch(count))
    await connection.close()


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """The URL of a port whose queue of connections is full: the system answers no further one."""
    waiting: list[socket.socket] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(address)
            waiting.append(client)
        await asyncio.sleep(0)
        yield f"http://127.0.0.1:{address[1]}/handle"
        for client in waiting:
            client.close()
