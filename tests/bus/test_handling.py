"""The order of a consumer's work, on a consumer in memory: which messages are processed, marked and
acked, and which never are.
"""

import asyncio
import sys
from typing import Any

import orjson
import pytest

from router.bus import BusHandler, BusSettings, MemoryProcessed, Nak, Term
from router.bus.consumer import (
    DEFAULT_OPTIONS,
    TERM_WITH_REASON,
    EnvelopeProcessor,
    build_dead_letter_writer,
)
from router.bus.metrics import BusMetrics, ConsumerMeter
from router.contracts.envelope import MessageEnvelope, envelope_bytes
from router.core.errors import Poison, Transient
from router.core.message import Message
from router.core.outcome import Done
from router.delivery.consume.subscription import Subscription
from tests.support.bus import EXAMPLE, an_envelope
from tests.support.in_memory_consumer import InMemoryConsumer

SUBJECT = "sr.events.loop"


class Marking(MemoryProcessed):
    """A store that writes down what it is asked, into the same list as the handler."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self._told = told

    async def has(self, key: str) -> bool:
        self._told.append("check")
        return await super().has(key)

    async def mark(self, key: str, write: object = None) -> bool:
        self._told.append("mark")
        return await super().mark(key)


def an_in_memory_consumer(
    handle: BusHandler, processed: MemoryProcessed | None = None
) -> InMemoryConsumer:
    handling = EnvelopeProcessor(BusSettings(), handle, processed or MemoryProcessed())
    letter = build_dead_letter_writer(BusSettings(), lambda: 1 << 20).write
    return InMemoryConsumer(
        Subscription(
            stream="sr-events",
            durable="c",
            options=DEFAULT_OPTIONS,
            handle=handling,
            dead_letter=letter,
            dead_letter_ack=TERM_WITH_REASON,
        )
    )


def letters(twin: InMemoryConsumer) -> list[dict[str, Any]]:
    return [orjson.loads(effect.data) for effect in twin.effects]


async def test_receive_check_process_mark_acknowledge_in_this_order() -> None:
    """SR-24: the algorithm."""
    told: list[str] = []
    twin = an_in_memory_consumer(lambda envelope: told.append("process"), Marking(told))
    twin.publish(SUBJECT, envelope_bytes(an_envelope()))
    await twin.run()
    assert told[:3] == ["check", "process", "mark"]
    assert (twin.steps[-1].kind, twin.steps[-1].value) == ("acked", b"+ACK")


async def test_a_key_that_is_known_is_acknowledged_and_not_processed() -> None:
    """SR-23, SR-24, T5: whatever id its copies were stored under."""
    seen: list[str] = []
    twin = an_in_memory_consumer(lambda envelope: seen.append(envelope.message_id))
    numbers = [twin.publish(SUBJECT, envelope_bytes(an_envelope(1))) for _ in range(5)]
    await twin.run()
    assert seen == ["evt_1"]
    assert [twin.acks(number) for number in numbers] == [[b"+ACK"]] * 5


@pytest.mark.parametrize("failure", [Nak(), Transient("away"), ValueError("a bug")])
async def test_a_failure_is_asked_for_again_after_1_2_4_4_seconds_and_terminated_at_the_fifth(
    failure: Nak | Exception,
) -> None:
    """SR-24, SR-25: NAK for redelivery; issue 7: five deliveries, then a dead letter and TERM."""
    times = []

    def fail(_: MessageEnvelope) -> Nak:
        times.append(twin.steps[-1].at)
        if isinstance(failure, Exception):
            raise failure
        return failure

    twin = an_in_memory_consumer(fail)
    number = twin.publish(SUBJECT, envelope_bytes(an_envelope()))
    await twin.run()
    assert times == [0, 1, 3, 7, 11]
    assert [ack.split(b" ")[0] for ack in twin.acks(number)] == [b"-NAK"] * 4 + [b"+TERM"]
    (letter,) = letters(twin)
    assert (letter["reason"], letter["source"]["attempts"]) == ("maxdeliver_exhausted", 5)


async def test_a_delay_may_be_said() -> None:
    """SR-25."""
    answers: list[Nak | None] = [Nak("not before noon", delay=60.0), None]
    twin = an_in_memory_consumer(lambda _: answers.pop(0))
    number = twin.publish(SUBJECT, envelope_bytes(an_envelope()))
    await twin.run()
    assert twin.acks(number) == [b'-NAK {"delay": 60000000000}', b"+ACK"]


@pytest.mark.parametrize("failure", [Term("no such loop"), Poison("no such loop")])
async def test_a_permanent_failure_is_terminated_once_its_dead_letter_is_stored(
    failure: Term | Poison,
) -> None:
    """SR-24, SR-25, docs/reference/contracts.md#order: never before."""

    def refuse(_: MessageEnvelope) -> Term:
        if isinstance(failure, Poison):
            raise failure
        return failure

    twin = an_in_memory_consumer(refuse)
    number = twin.publish(SUBJECT, envelope_bytes(an_envelope()))
    await twin.run()
    assert [step.kind for step in twin.steps] == ["started", "stored", "acked"]
    assert twin.acks(number) == [TERM_WITH_REASON]
    (letter,) = letters(twin)
    assert (letter["reason"], letter["last_error"]["message"]) == (
        "processing_error",
        "no such loop",
    )


async def test_a_version_that_is_not_supported_is_terminated_and_never_handled() -> None:
    """SR-27: with a dead letter that says why and holds the message."""
    handled: list[MessageEnvelope] = []
    twin = an_in_memory_consumer(handled.append)
    data = orjson.dumps({**EXAMPLE, "schema_version": "2.0"})
    number = twin.publish(SUBJECT, data, {"Nats-Msg-Id": "k"})
    await twin.run()
    assert (handled, twin.acks(number)) == ([], [TERM_WITH_REASON])
    (effect,) = twin.effects
    (letter,) = letters(twin)
    assert effect.subject == "sr.dlq.sr.events.loop"
    assert (letter["validation_error"]["code"], letter["validation_error"]["field"]) == (
        "VERSION_UNSUPPORTED",
        "schema_version",
    )
    assert (letter["message"]["payload"].encode(), letter["msg_id"], letter["trace_id"]) == (
        data,
        "k",
        EXAMPLE["correlation_id"],
    )


@pytest.mark.parametrize(
    "data", [b"", b"\xff\x00", b"{}", orjson.dumps({**EXAMPLE, "payload": [1]})]
)
async def test_what_is_no_envelope_is_terminated_with_a_dead_letter(data: bytes) -> None:
    """SR-27, docs/reference/contracts.md#failure-invalid: validation_failed, at once."""
    twin = an_in_memory_consumer(lambda _: None)
    number = twin.publish(SUBJECT, data)
    await twin.run()
    assert twin.acks(number) == [TERM_WITH_REASON]
    assert letters(twin)[0]["reason"] == "validation_failed"


async def test_a_dead_letter_that_cannot_be_stored_holds_its_message_back() -> None:
    """docs/explanation/durability.md#dead-letters: no ack before the dead letter is stored."""
    twin = an_in_memory_consumer(lambda _: Term())
    twin.refuses = "full"
    number = twin.publish(SUBJECT, envelope_bytes(an_envelope()))
    await twin.run()
    assert (twin.paused_for, twin.acks(number)) == ("full", [])
    twin.refuses = None
    await twin.run()
    assert twin.acks(number) == [TERM_WITH_REASON]


async def test_unknown_fields_reach_the_handler_as_nothing() -> None:
    """SR-27, SR-28: forward compatibility."""
    seen: list[MessageEnvelope] = []
    twin = an_in_memory_consumer(seen.append)
    twin.publish(SUBJECT, orjson.dumps({**EXAMPLE, "new_in_1_1": True}))
    await twin.run()
    assert [one.message_id for one in seen] == [EXAMPLE["message_id"]]


async def test_copies_that_are_in_hand_at_the_same_time_are_processed_once() -> None:
    """SR-23: the second waits for the first; and takes over when the first fails."""
    begun, ends = [], asyncio.Event()

    async def slow(envelope: MessageEnvelope) -> Nak | None:
        begun.append(envelope.message_id)
        await ends.wait()
        return Nak() if len(begun) == 1 else None

    metrics = BusMetrics()
    handling = EnvelopeProcessor(
        BusSettings(), slow, MemoryProcessed(), ConsumerMeter(metrics, "c")
    )
    message = Message(SUBJECT, envelope_bytes(an_envelope()), {}, "S", "C", 1, 0, 1, "")
    copies = [asyncio.ensure_future(handling(message)) for _ in range(3)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    ends.set()
    outcomes = await asyncio.gather(*copies)
    assert begun == ["evt_1", "evt_1"]
    assert [isinstance(one, Done) for one in outcomes] == [False, True, True]
    assert metrics.duplicates == {("c",): 1}


async def _cancelled_elsewhere(_: MessageEnvelope) -> None:
    task = asyncio.create_task(asyncio.sleep(30))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task


async def _exits(_: MessageEnvelope) -> None:
    sys.exit(3)


def _exits_plainly(_: MessageEnvelope) -> None:
    sys.exit(3)


async def _interrupts(_: MessageEnvelope) -> None:
    raise KeyboardInterrupt


async def _ends_as_a_generator(_: MessageEnvelope) -> None:
    await asyncio.sleep(0)
    raise GeneratorExit


def _interrupts_plainly(_: MessageEnvelope) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "fails",
    [
        _cancelled_elsewhere,
        _exits,
        _exits_plainly,
        _interrupts,
        _ends_as_a_generator,
        _interrupts_plainly,
    ],
)
async def test_a_handler_that_exits_or_awaits_a_cancelled_task_is_an_attempt_that_failed(
    fails: BusHandler,
) -> None:
    calls: list[str] = []

    def handle(envelope: MessageEnvelope) -> Any:
        calls.append(envelope.message_id)
        return fails(envelope) if len(calls) == 1 else None

    twin = an_in_memory_consumer(handle)
    twin.publish(SUBJECT, envelope_bytes(an_envelope()))
    await twin.run()
    assert len(calls) == 2
    assert (twin.steps[-1].kind, twin.steps[-1].value) == ("acked", b"+ACK")
