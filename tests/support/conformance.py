"""One driver for each thing that a subscription can run on: the in-memory consumer, and a Consumer
on a real server.

Scenarios cannot tell them apart.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.core.message import Effect, Message, Reply
from router.core.outcome import Fault, Handler, Hold, Outcome
from router.delivery.consume.consumer import Consumer, Deadlines
from router.delivery.consume.subscription import ACK, ConsumerOptions, Subscription
from router.delivery.wire.connection import Connection, OnRawMessage
from tests.support.beside import beside
from tests.support.delivery import SORRY, WorkStreams, connected
from tests.support.in_memory_consumer import InMemoryConsumer, InMemoryStep
from tests.support.waiting import until

STARTED, STORED, REPLIED, ACKED = "started", "stored", "replied", "acked"

PACE = ConsumerOptions(
    max_attempts=3,
    backoff=(0.05, 0.1, 0.2),
    ack_wait=30.0,
    heartbeat=0.2,
    pull_expires=1.0,
    publish_timeout=0.5,
    store_retry=0.02,
)


class Script(Struct, frozen=True, kw_only=True):
    """What a scenario brings: the meaning of its messages, and which of them kill the process that
    begins them.
    """

    handle: Handler
    dead_letter_ack: bytes = b"+ACK"
    deadly: bytes | None = None
    max_attempts: int = PACE.max_attempts
    ack_wait: float = PACE.ack_wait  # a short one comes to its end by itself on a busy machine

    def dies_on(self, message: Message) -> bool:
        return message.data == self.deadly


class Driver(Protocol):
    """A subscription at work. `effects` and `letters` are subjects."""

    effects: str
    letters: str
    steps: list[InMemoryStep]
    published: dict[int, float]  # by sequence: no delivery is earlier

    async def publish(self, data: bytes) -> int:
        """Store a message on the subscription's stream; returns its sequence."""

    async def finish(self) -> None:
        """Return when nothing is left to do."""

    async def until_paused(self) -> None: ...

    async def refuse_storing(self) -> None: ...

    async def allow_storing(self) -> None: ...

    async def stored_on(self, subject: str) -> list[bytes]:
        """What stands on a subject, in order."""


def at_work(driver: Driver, kind: str, sequence: int | None = None) -> list[bytes]:
    """The values of the steps of one kind."""
    return [
        step.value
        for step in driver.steps
        if step.kind == kind and sequence in (None, step.sequence)
    ]


def times_of(driver: Driver, sequence: int) -> list[float]:
    """When a handler was begun on a message."""
    return [step.at for step in driver.steps if step.kind == STARTED and step.sequence == sequence]


def a_subscription_for(
    script: Script, stream: str, durable: str, letters: str, handle: Handler
) -> Subscription:
    def letter(message: Message, reason: str, fault: Fault) -> Effect:
        return Effect(
            letters,
            f"{reason}:{fault.code}".encode(),
            f"dlq:{message.sequence}",
            is_dead_letter=True,
        )

    return Subscription(
        stream=stream,
        durable=durable,
        options=replace(PACE, max_attempts=script.max_attempts, ack_wait=script.ack_wait),
        handle=handle,
        dead_letter=letter,
        failure_reply=lambda *_: Reply(SORRY),
        dead_letter_ack=script.dead_letter_ack,
    )


class InMemoryDriver:
    """The in-memory consumer."""

    effects, letters = "effects", "letters"

    def __init__(self, script: Script) -> None:
        self._in_memory = InMemoryConsumer(
            a_subscription_for(script, "S", "C", self.letters, script.handle),
            dies_on=script.dies_on,
        )
        self.steps = self._in_memory.steps
        self.published: dict[int, float] = {}

    async def publish(self, data: bytes) -> int:
        # its clock begins with the first delivery
        self.published[sequence := self._in_memory.publish("work", data)] = 0.0
        return sequence

    async def finish(self) -> None:
        await self._in_memory.run()
        assert self._in_memory.paused_for is None

    async def until_paused(self) -> None:
        await self._in_memory.run()
        assert self._in_memory.paused_for is not None

    async def refuse_storing(self) -> None:
        self._in_memory.refuses = "no stream takes this subject"

    async def allow_storing(self) -> None:
        self._in_memory.refuses = None

    async def stored_on(self, subject: str) -> list[bytes]:
        return [effect.data for effect in self._in_memory.list_stored(subject)]


class RecordingConnection(Connection):
    """A connection that records the acks that it sends and the publish acks that it gets; a dead
    one sends nothing.
    """

    def __init__(self, note: Callable[[str, int, bytes], None], own_stream: str) -> None:
        super().__init__()
        self._note = note
        self._own_publish_ack = f'"{own_stream}"'.encode()
        self.is_dead = False

    def publish_nowait(
        self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b""
    ) -> None:
        if self.is_dead:
            return
        if subject.startswith("$JS.ACK.") and data != b"+WPI":
            self._note(ACKED, int(subject.split(".")[5]), data)
        super().publish_nowait(subject, data, reply, head)

    def acknowledge(self, ack_subject: str) -> None:
        self.publish_nowait(ack_subject, ACK)

    async def subscribe_raw(self, subject: str, hear: OnRawMessage) -> int:
        def dispatch(at: bytes, reply: bytes, data: bytes, head: bytes | None) -> None:
            if data.startswith(b'{"stream":' + self._own_publish_ack):
                self._note(STORED, 0, b"")
            hear(at, reply, data, head)

        return await super().subscribe_raw(subject, dispatch)


class ServerDriver:
    """A Consumer on a real durable. A deadly message cuts its connection off; another Consumer
    follows, as after a crash.
    """

    def __init__(self, script: Script, place: WorkStreams, url: str) -> None:
        self.effects, self.letters = place.effects, place.letters
        self.steps: list[InMemoryStep] = []
        self.published: dict[int, float] = {}
        self._script = script
        self._place = place
        self._url = url
        self._dead = asyncio.Event()
        self._consumer: Consumer | None = None
        self._connection: RecordingConnection | None = None
        self._now = asyncio.get_running_loop().time

    async def live(self) -> None:
        """One process after the other, until cancelled."""
        while True:
            self._dead.clear()
            connection = self._connection = RecordingConnection(self._note, self._place.out)
            await connection.connect(self._url)
            task = asyncio.create_task(self._a_consumer(connection).run())
            try:
                await self._dead.wait()
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await connection.close()

    def _a_consumer(self, connection: Connection) -> Consumer:
        place = self._place
        jetstream = type(place.jetstream)(connection)
        self._consumer = Consumer(
            a_subscription_for(
                self._script, place.stream, place.durable, place.letters, self._handle
            ),
            jetstream,
            attempts_bucket=place.bucket,
            send_reply=lambda message, reply: self._note(REPLIED, message.sequence, reply.data),
            deadlines=Deadlines(soft=0.05, hard=0.1),
        )
        return self._consumer

    def _handle(self, message: Message) -> Outcome | Awaitable[Outcome]:
        assert self._connection is not None
        if self._connection.is_dead:
            return Hold(Fault("dead", "the process is dead"))
        self._note(STARTED, message.sequence, message.data)
        if self._script.dies_on(message):
            self._connection.is_dead = True
            self._dead.set()
            return Hold(Fault("dead", "the process is dead"))
        return self._script.handle(message)

    def _note(self, kind: str, sequence: int, value: bytes) -> None:
        self.steps.append(InMemoryStep(kind, sequence, value, self._now()))

    async def publish(self, data: bytes) -> int:
        since = self._now()
        publish_ack = await self._place.connection.request(self._place.work, data, timeout=60)
        self.published[sequence := int(orjson.loads(publish_ack.data)["seq"])] = since
        return sequence

    async def finish(self) -> None:
        await until(self._place.is_settled, what="every message settled")

    async def until_paused(self) -> None:
        await until(
            lambda: self._consumer is not None and self._consumer.health.paused_for,
            what="the consumer paused",
        )

    async def refuse_storing(self) -> None:
        await self._place.jetstream.ask(f"STREAM.DELETE.{self._place.out}")

    async def allow_storing(self) -> None:
        await self._place.create()

    async def stored_on(self, subject: str) -> list[bytes]:
        bodies = []
        for sequence in range(1, await self._place.last_sequence(self._place.out) + 1):
            message = await self._place.jetstream.message(self._place.out, sequence)
            if message is not None and message.subject == subject:
                bodies.append(message.data)
        return bodies


@asynccontextmanager
async def drive_in_memory(script: Script) -> AsyncIterator[Driver]:
    yield InMemoryDriver(script)


@asynccontextmanager
async def drive_on_server(script: Script, url: str, name: str) -> AsyncIterator[Driver]:
    async with connected(url) as connection:
        place = WorkStreams(connection, name)
        await place.create()
        driver = ServerDriver(script, place, url)
        async with beside(driver.live()):
            yield driver
