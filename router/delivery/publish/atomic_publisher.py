"""Store many messages together or not at all: JetStream's atomic batch (server 2.12,
`allow_atomic`).

    1  2  3 … n-1        Nats-Batch-Id, Nats-Batch-Sequence         held back by the server, visible
                         to no consumer
    n                    the same and Nats-Batch-Commit: 1          all are stored in a row; one
                         publish ack with the last sequence

All of them wait for the disk once: with `sync_interval: always` that is 40 k instead of 4 k
messages a second. The server refuses the whole batch if the stream remembers one of its ids (10201)
or refuses one of its messages (10176); the caller then publishes them one by one. A message above
the connection's limit is never put into a batch: the server would close the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from secrets import token_hex

import orjson

from router.core.crashpoints import crashpoint
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks
from router.delivery.publish.encoded_headers import head_with_id
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers
from router.delivery.wire.publish_faults import NO_STREAM, TOO_LARGE

MAX_BATCH = 1000  # messages in one batch, the server's limit
BATCHES_NOT_ENABLED = 10174
BATCH_HAS_DUPLICATE = 10201
BATCH_INCOMPLETE = 10176
HEAD_ROOM = 256  # for the headers of the batch
# messages, which are sent then: the server works while this process encodes the rest
SLICE = 50

Answer = asyncio.Future[tuple[bytes, Headers | None]]


class AtomicPublisher:
    """For one connection. The caller publishes one batch at a time, because the server may reorder
    two.
    """

    def __init__(self, jetstream: JetStream, timeout_s: float = 5.0) -> None:
        self._connection = jetstream.connection
        self._inbox = self._connection.new_inbox() + "."
        self._name = token_hex(4)  # short, because every stored message has it as a header
        self._timeout_s = timeout_s
        self._answers: dict[str, Answer] = {}
        self._count = 0
        self._sid = 0

    async def open(self) -> None:
        self._sid = await self._connection.subscribe_direct(self._inbox + "*", self._on_publish_ack)

    async def close(self) -> None:
        await self._connection.unsubscribe(self._sid)

    async def publish(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        """A publish ack for each of at most `MAX_BATCH` effects, in their order; or the reason why
        none is stored.
        """
        if any(self._is_too_large(effect) for effect in effects):
            return NotPublished(
                effects[-1].subject, TOO_LARGE, "a message is larger than the connection allows"
            )
        self._count += 1
        inbox = f"{self._inbox}{self._count}"
        answer = self._answers[inbox] = asyncio.get_running_loop().create_future()
        try:
            await self._post(effects, inbox)
            async with asyncio.timeout(self._timeout_s):
                return read_batch_ack(effects, *await answer)
        except TimeoutError:
            return NotPublished(effects[-1].subject, 0, "no publish ack in time")
        finally:
            del self._answers[inbox]

    def _is_too_large(self, effect: Effect) -> bool:
        size, most = len(effect.data), self._connection.max_payload
        return (
            size > most // 2
            and size + len(head_with_id(effect.headers, effect.id)) + HEAD_ROOM > most
        )

    async def _post(self, effects: Sequence[Effect], inbox: str) -> None:
        publish = self._connection.publish_nowait
        frames = encode_batch(effects, f"{self._name}{self._count}", inbox)
        for number, frame in enumerate(frames, 1):
            publish(*frame)
            if number % SLICE == 0:
                await asyncio.sleep(0)

    def _on_publish_ack(
        self, subject: str, _reply: str, data: bytes, headers: Headers | None
    ) -> None:
        answer = self._answers.get(subject)
        if answer is not None and not answer.done():
            answer.set_result((data, headers))


def write_batch(connection: Connection, effects: Sequence[Effect], name: str, inbox: str) -> None:
    """Send a batch of this name at once; the caller has looked at its size."""
    for number, frame in enumerate(encode_batch(effects, name, inbox), 1):
        connection.publish_nowait(*frame)
        if number % SLICE == 0:
            connection.write_early()


def encode_batch(
    effects: Sequence[Effect], name: str, inbox: str
) -> Iterator[tuple[str, bytes, str, bytes]]:
    """Yield subject, data, reply subject and head of each message; the last one asks for the
    publish ack.
    """
    in_batch = f"Nats-Batch-Id: {name}\r\nNats-Batch-Sequence: ".encode()
    *others, last = effects
    for number, effect in enumerate(others, 1):
        # without the empty line at its end
        head = head_with_id(effect.headers, effect.id)[:-2]
        yield effect.subject, effect.data, "", b"%b%b%d\r\n\r\n" % (head, in_batch, number)
    crashpoint("batch_open")
    head = head_with_id(last.headers, last.id)[:-2]
    commit = b"%b%b%d\r\nNats-Batch-Commit: 1\r\n\r\n" % (head, in_batch, len(effects))
    yield last.subject, last.data, inbox, commit


def read_batch_ack(
    effects: Sequence[Effect], data: bytes, headers: Headers | None
) -> PublishAcks | NotPublished:
    """A publish ack for each effect of a batch; or why none is stored."""
    subject = effects[-1].subject
    if not data:
        # each of them by itself finds out whether its stream is missing, or has no leader now
        if headers:
            return NotPublished(subject, NO_STREAM, "no stream takes this subject")
        return NotPublished(subject, 0, "an empty publish ack")
    try:
        ack = orjson.loads(data)
        if "error" in ack:
            return NotPublished(
                subject, ack["error"].get("err_code", 0), ack["error"].get("description", "")
            )
        stream, first = ack["stream"], ack["seq"] - len(effects) + 1
        if "batch" not in ack:
            return NotPublished(
                subject,
                BATCHES_NOT_ENABLED,
                "the server knows no batches: it stored them one by one",
            )
        if ack["count"] != len(effects):
            return NotPublished(subject, BATCH_INCOMPLETE, "the publish ack counts other messages")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return NotPublished(subject, 0, "the publish ack cannot be read")
    return tuple(
        PublishAck(effect.id, stream, first + place, False) for place, effect in enumerate(effects)
    )
