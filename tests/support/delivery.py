"""Connection, publisher and attempt counter that only remember, a processor around them, and
streams on a real server.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from nats.aio.msg import Msg

from router.core.errors import BrokerUnavailable
from router.core.message import Effect, Message, Reply
from router.core.outcome import Done, Fault, Handler, PublishAck
from router.delivery.consume.attempts import AttemptRecord, Tried
from router.delivery.consume.outages import PauseSwitch
from router.delivery.consume.processor import MessageProcessor
from router.delivery.consume.subscription import ACK, ConsumerOptions, Subscription
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks, PublishCallback
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.denials import Denials
from router.delivery.wire.first_connection import connect
from router.delivery.wire.frames import Headers, parse_head
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology, bucket, create
from tests.support.made_anew import retry_while_removed
from tests.support.waiting import slack

STORED_NS = 1_700_000_000_000_000_000
SORRY = b"sorry"

_PLACES = itertools.count(1)


class PublishedFrame(Struct, frozen=True):
    subject: str
    data: bytes
    reply: str = ""
    head: bytes = b""


class FakeConnection:
    """Remembers what was posted; `say` lets a subscription hear something."""

    def __init__(self) -> None:
        self.posts: list[PublishedFrame] = []
        self.faults: list[BaseException] = []
        self.is_connected = True
        self.is_behind = False
        self.max_payload = 1024 * 1024
        self.reconnect_count = 0
        self.early_writes = 0
        self.callbacks: dict[str, Callable[..., None]] = {}
        self.denials = Denials(lambda *_: None)

    def publish_nowait(
        self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b""
    ) -> None:
        self.posts.append(PublishedFrame(subject, data, reply, head))

    def acknowledge(self, ack_subject: str) -> None:
        self.publish_nowait(ack_subject, ACK)

    def publish_many(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        for subject, data in messages:
            self.publish_nowait(subject.decode(), data)

    def on_fault(self, exc: BaseException) -> None:
        self.faults.append(exc)

    def posted(self, subject: str) -> list[bytes]:
        return [post.data for post in self.posts if post.subject == subject]

    def new_inbox(self) -> str:
        return "_INBOX.fake"

    async def subscribe_direct(
        self, subject: str, on_message: Callable[..., None], queue: str = ""
    ) -> int:
        self.callbacks[subject] = on_message
        return len(self.callbacks)

    def read_head(self, head: bytes) -> Headers | None:
        return parse_head(head)

    def write_early(self) -> None:
        self.early_writes += 1

    async def subscribe_raw(
        self, subject: str, on_message: Callable[[bytes, bytes, bytes, bytes | None], None]
    ) -> int:
        return await self.subscribe_direct(
            subject,
            lambda subject, reply, data, headers: on_message(
                subject.encode(), reply.encode(), data, head_of(headers) if headers else None
            ),
        )

    async def unsubscribe(self, sid: int) -> None: ...

    def say(
        self,
        subject: str,
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        reply: str = "",
    ) -> None:
        (on_message,) = self.callbacks.values()
        on_message(subject, reply, data, headers)


class CountingJetStream(JetStream):
    """It keeps the name of each stream and consumer whose info it asks the server for.

    A subscription to the server's API would miss some: of ten calls a busy server showed it nine.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.asked: list[str] = []

    async def stream(self, name: str) -> Json | None:
        self.asked.append(name)
        return await super().stream(name)

    async def consumer(self, stream: str, durable: str) -> Json | None:
        self.asked.append(f"{stream}.{durable}")
        return await super().consumer(stream, durable)


@contextmanager
def count_timers(owner: object) -> Iterator[list[float]]:
    """The seconds of each timer that calls a method of this object, of those started within."""
    loop, waits = asyncio.get_running_loop(), []
    call_later = loop.call_later

    def note(seconds: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        if getattr(callback, "__self__", None) is owner:
            waits.append(seconds)
        return call_later(seconds, callback, *args)

    loop.call_later = note  # type: ignore[method-assign,assignment]
    try:
        yield waits
    finally:
        del loop.call_later


class FakePublisher:
    """Keeps what is to be stored until `accept` or `refuse`; `refusing` answers every later try,
    `holding` delays it.
    """

    def __init__(self) -> None:
        self.asked: list[Sequence[Effect]] = []
        self.refusing: NotPublished | None = None
        self.holding: asyncio.Event | None = None
        self._told: list[tuple[Sequence[Effect], PublishCallback]] = []

    def publish(self, effects: Sequence[Effect], callback: PublishCallback) -> None:
        self.asked.append(effects)
        self._told.append((effects, callback))

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        self.asked.append(effects)
        if self.holding is not None:
            await self.holding.wait()
        return self.refusing or publish_acks_for(effects)

    def accept(self) -> None:
        """Everything that waits is stored."""
        waiting, self._told = self._told, []
        for effects, told in waiting:
            told(publish_acks_for(effects))

    def refuse(self, cause: str = "no", err_code: int = 10077) -> None:
        self.refusing = NotPublished("effects", err_code, cause)
        waiting, self._told = self._told, []
        for _, told in waiting:
            told(self.refusing)


class FakeAttemptCounter:
    """The attempt records of one bucket, in a dict; `is_down` refuses to write or to look."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.assumed: set[int] = set()  # whose first attempt is
        self.is_down = False
        self.fault: BrokerUnavailable = BrokerUnavailable("down")
        self.tries = 0

    def name_writer(self, message: Message) -> str:
        return ""

    def try_begin(
        self, message: Message, record: AttemptRecord, writer: str, then: Callable[[Tried], None]
    ) -> None:
        is_ours = self.counts.get(message.sequence) == record.attempts
        self._answer_soon(message, record.attempts + 1, then, is_ours=is_ours)

    def try_failure(self, message: Message, writer: str, then: Callable[[Tried], None]) -> None:
        self._answer_soon(message, 1, then, is_ours=message.sequence not in self.counts)

    def _answer_soon(
        self, message: Message, attempts: int, then: Callable[[Tried], None], *, is_ours: bool
    ) -> None:
        answer: Tried = None
        try:
            self._try()
        except BrokerUnavailable as exc:
            answer = exc
        else:
            if is_ours:
                self.counts[message.sequence] = attempts
                answer = replace(message, attempts=attempts, revision=attempts)
        asyncio.get_running_loop().call_soon(then, answer)

    async def count_begin(
        self, message: Message, attempt_record: AttemptRecord | None, most: int, writer: str = ""
    ) -> tuple[Message, bool]:
        self._try()
        if message.sequence not in self.counts:
            self.assumed.add(message.sequence)
        attempts = self.counts.get(message.sequence, 1)
        may_begin = attempts < (max(2, most) if message.sequence in self.assumed else most)
        if may_begin:
            attempts = self.counts[message.sequence] = attempts + 1
        return replace(message, attempts=attempts, revision=attempts), may_begin

    async def count_failure(self, message: Message, writer: str = "") -> Message:
        self._try()
        attempts = self.counts[message.sequence] = self.counts.get(message.sequence, 0) + 1
        return replace(message, attempts=attempts, revision=attempts)

    def give_back(self, message: Message, *, was_begun: bool) -> None:
        self.counts[message.sequence] = message.attempts - 1

    def forget(self, message: Message) -> None:
        self.counts.pop(message.sequence, None)

    def _try(self) -> None:
        self.tries += 1
        if self.is_down:
            raise self.fault


class RecordingObserver:
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.publish_acks: list[tuple[int, list[str]]] = []
        self.settles: list[tuple[int, bool]] = []
        self.timeouts: list[int] = []
        self.refused: list[str] = []
        self.flow: list[str | None] = []
        self.storage: list[str | None] = []
        self.outages: list[str | None] = []
        self.held_back: list[str | None] = []
        self.refusals: list[tuple[int, str]] = []
        self.alarms: list[BaseException] = []

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None:
        self.publish_acks.append(
            (message.sequence, [publish_ack.id for publish_ack in publish_acks])
        )

    def on_settled(self, message: Message, outcome: object, is_final: bool) -> None:
        self.settles.append((message.sequence, is_final))

    def on_unexpected_redelivery(self, message: Message) -> None:
        self.timeouts.append(message.sequence)

    def on_dead_letter_unstored(self, message: Message, cause: str) -> None:
        self.refused.append(cause)

    def on_flow(self, cause: str | None) -> None:
        self.flow.append(cause)

    def on_server_pause(self, cause: str | None) -> None:
        self.held_back.append(cause)

    def on_storage(self, cause: str | None) -> None:
        self.storage.append(cause)

    def on_outage(self, cause: str | None) -> None:
        self.outages.append(cause)

    def on_storage_refused(self, message: Message, subject: str, what: str) -> None:
        self.refusals.append((message.sequence, what))

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        self.alarms.append(exc)


def a_subscription(handle: Handler = lambda _: Done(), **facts: object) -> Subscription:
    """A subscription whose dead letters go to `letters`; fields of ConsumerOptions may be given
    beside the subscription's own.
    """
    options = ConsumerOptions(
        **{
            name: facts.pop(name)
            for name in list(facts)
            if name in ConsumerOptions.__struct_fields__
        }
    )  # type: ignore[arg-type]
    given = {
        "stream": "S",
        "durable": "C",
        "dead_letter": a_dead_letter,
        "failure_reply": lambda *_: Reply(SORRY),
        **facts,
    }
    return Subscription(options=options, handle=handle, **given)  # type: ignore[arg-type]


def a_dead_letter(message: Message, reason: str, fault: Fault) -> Effect:
    return Effect(
        "letters", f"{reason}:{fault.code}".encode(), f"dlq:{message.sequence}", is_dead_letter=True
    )


def a_delivery(
    sequence: int = 1, *, deliveries: int = 1, attempts: int = 1, data: bytes = b""
) -> Message:
    """A message as it comes from the durable `C` of the stream `S`."""
    return Message(
        "work",
        data,
        {},
        "S",
        "C",
        sequence,
        STORED_NS,
        deliveries,
        token_of(sequence, deliveries),
        attempts,
    )


def token_of(sequence: int, deliveries: int = 1) -> str:
    return f"$JS.ACK.S.C.{deliveries}.{sequence}.{sequence}.{STORED_NS}.0"


def publish_acks_for(effects: Sequence[Effect]) -> PublishAcks:
    return tuple(
        PublishAck(effect.id, "E", place, False) for place, effect in enumerate(effects, 1)
    )


class ProcessorBench(SimpleNamespace):
    """A processor and the fakes around it."""

    processor: MessageProcessor
    connection: FakeConnection
    publisher: FakePublisher
    attempt_counter: FakeAttemptCounter
    watcher: RecordingObserver
    pause_switch: PauseSwitch
    replies: list[bytes]

    def take(
        self,
        sequence: int = 1,
        deliveries: int = 1,
        data: bytes = b"",
        headers: Headers | None = None,
    ) -> bool:
        return self.processor.on_delivery("work", token_of(sequence, deliveries), data, headers)

    def acks(self, sequence: int = 1, deliveries: int = 1) -> list[bytes]:
        return self.connection.posted(token_of(sequence, deliveries))


@asynccontextmanager
async def a_processor(handle: Handler, **facts: object) -> AsyncIterator[ProcessorBench]:
    """A processor among fakes; its pause switch starts what waits when it opens, as a Consumer's
    does.
    """
    watcher, connection, replies = RecordingObserver(), FakeConnection(), []
    bench = ProcessorBench(
        watcher=watcher,
        connection=connection,
        replies=replies,
        publisher=FakePublisher(),
        attempt_counter=FakeAttemptCounter(),
    )
    bench.pause_switch = PauseSwitch(
        lambda cause: bench.processor.begin_queued() if cause is None else None
    )
    async with asyncio.TaskGroup() as tasks:
        bench.processor = MessageProcessor(
            a_subscription(handle, observer=watcher, **facts),
            connection=connection,  # type: ignore[arg-type]
            publisher=bench.publisher,  # type: ignore[arg-type]
            attempt_counter=bench.attempt_counter,  # type: ignore[arg-type]
            pause_switch=bench.pause_switch,
            tasks=tasks,
            send_reply=lambda _, reply: replies.append(reply.data),
        )
        yield bench
        bench.processor.stop_taking()
        await bench.processor.drain(0, 0)


class WorkStreams:
    """On a real server, under names of their own: a stream `work`, one for effects and dead
    letters, a bucket of attempt records.
    """

    def __init__(self, connection: Connection, name: str, ack_wait: float = 0.4) -> None:
        name = f"{name}_{next(_PLACES)}"
        self.connection = connection
        self.jetstream = JetStream(connection)
        self.ack_wait = ack_wait
        self.work, self.effects, self.letters = f"{name}.work", f"{name}.effects", f"{name}.letters"
        self.stream, self.out, self.bucket = f"{name}_WORK", f"{name}_OUT", f"{name}_ATTEMPTS"
        self.durable = "worker"

    def topology(self, *, with_out: bool = True, replicas: int = 1) -> Topology:
        work = StreamSpec(name=self.stream, subjects=(self.work,), replicas=replicas)
        out = StreamSpec(name=self.out, subjects=(self.effects, self.letters), replicas=replicas)
        streams = (
            work,
            bucket(self.bucket, ttl=60, replicas=replicas),
            *((out,) if with_out else ()),
        )
        return Topology(
            streams,
            (ConsumerSpec(stream=self.stream, durable=self.durable, ack_wait=self.ack_wait),),
        )

    async def create(self, *, with_out: bool = True, replicas: int = 1) -> None:
        declared = self.topology(with_out=with_out, replicas=replicas)
        assert await retry_while_removed(lambda: create(self.jetstream, declared)) == []

    async def is_settled(self) -> bool:
        """Whether everything that was stored is delivered and acked for good."""
        info = await self.jetstream.consumer(self.stream, self.durable)
        if info is None or info["num_ack_pending"]:
            return False
        # num_pending may lag behind a publish
        return info["delivered"]["stream_seq"] >= await self.last_sequence(self.stream)

    async def last_sequence(self, stream: str) -> int:
        info = await self.jetstream.stream(stream)
        return info["state"]["last_seq"] if info is not None else 0


@asynccontextmanager
async def connected(*urls: str, **options: Any) -> AsyncIterator[Connection]:
    busy = slack()
    given = {"servers": [*urls], "connect_timeout": 2.0 * busy, **options}
    connection = await connect(given, timeout_s=5.0 * busy)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def some_work_streams(
    url: str, name: str, *, with_out: bool = True, replicas: int = 1, ack_wait: float = 60.0
) -> AsyncIterator[WorkStreams]:
    async with connected(url) as connection:
        place = WorkStreams(connection, name, ack_wait)
        await place.create(with_out=with_out, replicas=replicas)
        yield place


Heard = tuple[str, str, bytes, Headers | None]  # subject, reply, data, headers


class CallRecorder:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def __call__(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self.heard.append((subject, reply, data, headers))

    @property
    def data(self) -> list[bytes]:
        return [data for _, _, data, _ in self.heard]

    async def on_message(self, message: Msg) -> None:
        self(message.subject, message.reply, message.data, message.headers)
