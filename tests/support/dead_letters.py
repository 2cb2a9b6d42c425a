"""Dead letters as they are stored, and streams on a real server that they are sent back to."""

from collections.abc import Callable
from typing import Any

import orjson

from router.contracts.dead_letter import build_dead_letter
from router.core.message import Effect, Message
from router.core.outcome import Fault
from router.delivery.consume.stream_reader import open_reader
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream, StoredMessage
from router.operate.dead_letters import ReplayReport, read_by_filter, read_by_sequence, replay
from router.operate.dead_letters.journal import ReplayJournal, prove
from router.operate.dead_letters.original import REPLAY_RUN
from tests.support.waiting import until

STORED = "2026-01-02T03:04:05.123456789Z"


def a_failed_message(data: bytes = b'{"message":{}}', **facts: Any) -> Message:
    facts = {
        "subject": "beamline.router.v1.decide",
        "stream": "ROUTER_DECIDE",
        "consumer": "c",
        "sequence": 7,
        "headers": {},
        **facts,
    }
    facts = {
        "stored_ns": 1_700_000_000_000_000_000,
        "deliveries": 3,
        "ack_subject": "",
        "attempts": 2,
        **facts,
    }
    return Message(data=data, **facts)


def a_dead_letter(
    message: Message | None = None,
    *,
    reason: str = "validation_failed",
    max_bytes: int = 1 << 20,
    seen: Any = None,
) -> StoredMessage:
    """A dead letter as our own router writes it."""
    fault = Fault(
        "SCHEMA_VALIDATION_FAILED",
        "Missing required field: tenant_id",
        "message.tenant_id",
        "schema",
    )
    return build_letter(
        message or a_failed_message(), reason, fault, max_bytes=max_bytes, seen=seen
    )


def build_letter(
    message: Message, reason: str, fault: Fault, *, max_bytes: int = 1 << 20, seen: Any = None
) -> StoredMessage:
    """The same for another fault."""
    effect = build_dead_letter(
        message, reason, fault, node_id="n", now_ms=1, max_bytes=max_bytes, seen=seen
    )
    return StoredMessage(effect.subject, 1, effect.data, dict(effect.headers), STORED)


def a_stored_dead_letter(
    data: bytes | dict[str, Any], subject: str = "beamline.router.v1.decide.dlq", **headers: str
) -> StoredMessage:
    """Anything at all on a dead-letter subject."""
    return StoredMessage(
        subject, 1, data if isinstance(data, bytes) else orjson.dumps(data), headers, STORED
    )


class DeadLetterStreams:
    """A stream of dead letters and the stream that they came from, on a real server; `{prefix}.in`
    is the subject that failed.
    """

    def __init__(self, jetstream: JetStream, prefix: str) -> None:
        self.jetstream = jetstream
        self.subject = f"{prefix}.in"
        self.stream = f"{prefix}_IN"
        self.letters = f"{prefix}_DLQ"
        self._stored = 0

    async def build(
        self, *, no_ack: bool = False, retention: str = "limits"
    ) -> "DeadLetterStreams":
        config: dict[str, Any] = {
            "name": self.stream,
            "subjects": [self.subject],
            "no_ack": no_ack,
            "retention": retention,
        }
        await self.jetstream.ask(
            f"STREAM.CREATE.{self.stream}", {**config, "duplicate_window": 100_000_000}
        )
        await self.jetstream.ask(
            f"STREAM.CREATE.{self.letters}",
            {"name": self.letters, "subjects": [f"{self.subject}.dlq", f"{self.subject}.x"]},
        )
        return self

    async def store(
        self,
        count: int = 1,
        *,
        make: Callable[[Message], StoredMessage] | None = None,
        **facts: Any,
    ) -> None:
        """Letters about messages 0, 1, … with payload `{"n": 0}`, and so on."""
        for n in range(self._stored, self._stored + count):
            message = a_failed_message(
                **{
                    "subject": self.subject,
                    "stream": self.stream,
                    "data": b'{"n":%d}' % n,
                    "sequence": n + 1,
                    **facts,
                }
            )
            dead_letter = (make or a_dead_letter)(message)
            await self.jetstream.connection.request(
                dead_letter.subject,
                dead_letter.data,
                headers=dead_letter.headers or None,
                timeout=60,
            )
        self._stored += count

    async def replay(self, *sequences: int, **options: Any) -> ReplayReport:
        """Those dead letters, or all."""
        chosen = (
            read_by_sequence(self.jetstream, self.letters, sequences)
            if sequences
            else read_by_filter(self.jetstream, self.letters)
        )
        return await replay(self.jetstream, self.letters, chosen, **options)

    async def left(self) -> list[int]:
        """Sequences of the dead letters that stand there."""
        return [
            dead_letter.sequence
            async for handful in read_by_filter(self.jetstream, self.letters)
            for dead_letter in handful.dead_letters
        ]

    async def sent(self) -> list[StoredMessage]:
        """What stands in the stream that failed."""
        async with open_reader(self.jetstream, self.stream) as reader:
            return await reader.read(reader.total) if reader.total else []


async def interrupt_replay(house: DeadLetterStreams, *sequences: int, run: str = "") -> None:
    """A replay noted its floor, sent these dead letters' messages, and was killed."""
    async with open_publisher(house.jetstream) as publisher:
        journal = ReplayJournal(house.jetstream, publisher, house.letters)
        await journal.begin()
        info = await house.jetstream.stream(house.stream)
        assert info is not None
        await journal.note({house.stream: info["state"]["last_seq"]})
        ids = [f"replay:{at}:1" for at in sequences]
        effects = [
            Effect(
                house.subject, b"?", message_id, {REPLAY_RUN: prove(run or journal.run, message_id)}
            )
            for message_id in ids
        ]
        for effect in effects:
            await house.jetstream.connection.publish(
                effect.subject, effect.data, headers={**effect.headers, "Nats-Msg-Id": effect.id}
            )

        async def has_stored_all() -> bool:
            now = await house.jetstream.stream(house.stream)
            return now is not None and bool(
                now["state"]["last_seq"] >= info["state"]["last_seq"] + len(effects)
            )

        await until(has_stored_all)  # a stream without acks says nothing of what it stores
        await journal.close()
