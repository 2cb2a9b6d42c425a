"""Consumers on a real server: durables, filters, acks on the wire, dead letters, many copies."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import orjson
import pytest
from msgspec.structs import replace

from router.bus import Nak, Term
from router.contracts.envelope import MessageEnvelope, envelope_bytes
from router.core.errors import Misconfigured, Poison
from router.sdk.bus import Bus
from tests.support.bus import (
    EXAMPLE,
    QUICK,
    a_bus,
    an_envelope,
    read_bus_stream,
    run_consumer,
    wait_until_settled,
)
from tests.support.waiting import until


async def test_a_consumer_is_a_durable_with_explicit_acks_under_its_prefix(
    bus: Bus, prefix: str
) -> None:
    """SR-25, SR-32: `{NATS_CONSUMER_PREFIX}-{name}`."""
    async with run_consumer(bus, lambda _: None, only="loop"):
        await until(
            lambda: bus.jetstream.consumer(f"{prefix}-events", f"{prefix}-consumer-projector")
        )
        info = await bus.jetstream.consumer(f"{prefix}-events", f"{prefix}-consumer-projector")
        assert info is not None
        config = info["config"]
        assert (config["ack_policy"], config["filter_subject"], config["max_deliver"]) == (
            "explicit",
            f"{prefix}.events.loop",
            -1,
        )


async def test_acks_naks_and_terms_are_seen_on_the_wire(bus: Bus, prefix: str) -> None:
    """SR-25: +ACK, -NAK, +TERM, each where docs/reference/requirements.md#sr-25 wants it."""
    acks: dict[int, list[bytes]] = {}
    # $JS.ACK.stream.consumer.deliveries.sequence.…
    sequence = 5
    sid = await bus.jetstream.connection.subscribe_direct(
        f"$JS.ACK.{prefix}-events.>",
        lambda subject, _, data, __: acks.setdefault(int(subject.split(".")[sequence]), []).append(
            data
        ),
    )
    tries: Counter[str] = Counter()

    def handle(envelope: MessageEnvelope) -> Nak | Term | None:
        tries[envelope.message_id] += 1
        if envelope.message_id == "evt_2" and tries["evt_2"] == 1:
            return Nak()
        return Term() if envelope.message_id == "evt_3" else None

    for number in (1, 2, 3):
        await bus.publisher.event(an_envelope(number))
    async with run_consumer(bus, handle):
        await wait_until_settled(bus)
    await bus.jetstream.connection.unsubscribe(sid)
    settling = {
        number: [word[:4] for word in words if word != b"+WPI"] for number, words in acks.items()
    }
    assert settling == {1: [b"+ACK"], 2: [b"-NAK", b"+ACK"], 3: [b"+TER"]}


async def test_what_failed_for_good_is_a_dead_letter_under_the_prefix(
    bus: Bus, prefix: str
) -> None:
    """SR-27, docs/reference/contracts.md#dead-letter-streams: every dead letter once, and the
    others are not held up.
    """
    await bus.jetstream.publish(
        f"{prefix}.events.loop", orjson.dumps({**EXAMPLE, "schema_version": "2.0"}), {}
    )
    await bus.jetstream.publish(f"{prefix}.events.other", b"\xff", {})
    await bus.publisher.event(an_envelope(1, message_type="RunStarted"))
    await bus.publisher.event(an_envelope(2))
    seen = []

    def handle(envelope: MessageEnvelope) -> None:
        seen.append(envelope.message_id)
        if envelope.message_id == "evt_1":
            raise ValueError("always")

    async with run_consumer(bus, handle):
        await wait_until_settled(bus)
        await until(lambda: _letters_are(bus, 3))
    letters = [
        (one.subject, orjson.loads(one.data)["reason"]) for one in await read_bus_stream(bus, "dlq")
    ]
    assert sorted(letters) == [
        (f"{prefix}.dlq.{prefix}.events.loop", "validation_failed"),
        (f"{prefix}.dlq.{prefix}.events.other", "validation_failed"),
        (f"{prefix}.dlq.{prefix}.events.run", "maxdeliver_exhausted"),
    ]
    assert Counter(seen) == {"evt_1": 5, "evt_2": 1}


class OddPoison(Poison):
    code = "\ud800"


def _raise_odd(_: MessageEnvelope) -> NoReturn:
    raise OddPoison("no")


@pytest.mark.parametrize(
    "handle",
    [
        lambda _: Term(5),
        lambda _: Term(None),
        lambda _: Nak(b"no"),
        lambda _: Nak(delay="soon"),
        lambda _: Nak(delay=float("nan")),
        lambda _: Nak(delay=float("inf")),
        lambda _: Nak(delay=1e300),
        _raise_odd,
    ],
)
async def test_an_answer_that_cannot_be_written_is_a_dead_letter(
    bus: Bus, handle: Callable[[MessageEnvelope], Any]
) -> None:
    """The message is tried as often as is allowed, and then given up; it never comes for ever."""
    calls: list[str] = []

    def counted(envelope: MessageEnvelope) -> Any:
        calls.append(envelope.message_id)
        return handle(envelope)

    await bus.publisher.event(an_envelope(1))
    async with run_consumer(bus, counted):
        await wait_until_settled(bus)
    (letter,) = await read_bus_stream(bus, "dlq")
    assert orjson.loads(letter.data)["msg_id"]
    assert len(calls) <= QUICK.max_attempts


async def test_a_process_that_is_starved_begins_nothing_more_often_than_is_allowed(
    bus: Bus,
) -> None:
    """docs/reference/requirements.md#sr-25: deliveries that cross the last word on the wire are
    begun no more, though their marks are gone.
    """
    seen: Counter[str] = Counter()

    def handle(envelope: MessageEnvelope) -> Nak:
        seen[envelope.message_id] += 1
        if seen.total() % 5 == 0:
            # the loop stands still until the ack wait of the messages in flight is over
            time.sleep(0.07)
        return Nak()

    for number in range(20):
        await bus.publisher.event(an_envelope(number))
    async with run_consumer(
        bus, handle, options=replace(QUICK, ack_wait=0.1, backoff=(0.01, 0.02))
    ):
        await wait_until_settled(bus)
    assert seen == {f"evt_{number}": 5 for number in range(20)}
    assert len(await read_bus_stream(bus, "dlq")) == 20


async def _letters_are(bus: Bus, count: int) -> bool:
    return len(await read_bus_stream(bus, "dlq")) == count


@pytest.mark.parametrize("store", ["sqlite", "bucket", "memory"])
async def test_each_event_is_processed_once_however_often_it_was_published(
    bus: Bus, prefix: str, store: str, tmp_path: Path
) -> None:
    """SR-22, SR-23, T5: one to five copies of each, by two connections, within the window and past
    the server's memory of ids.
    """
    counts: Counter[str] = Counter()
    keys = {"sqlite": tmp_path / "keys.db", "bucket": bus.shared_keys("projector"), "memory": None}[
        store
    ]
    async with (
        a_bus(bus._all.nats.url[0], prefix) as other,
        run_consumer(bus, lambda one: counts.update([one.message_id]), store=keys),
    ):
        copies = [(number, copy) for number in range(100) for copy in range(1 + number % 5)]
        await asyncio.gather(
            *(_publish_copy((bus, other)[copy % 2], number, copy) for number, copy in copies)
        )
        await wait_until_settled(bus)
    assert counts == {f"evt_{number}": 1 for number in range(100)}
    assert len(await read_bus_stream(bus, "events")) > 100  # the server took copies in


async def _publish_copy(bus: Bus, number: int, copy: int) -> None:
    """Every other copy under an id of its own, as a server stores it that has forgotten the first."""
    if copy % 2:
        await bus.publisher.event(an_envelope(number))
    else:
        await bus.jetstream.publish(
            f"{bus.settings.stream_prefix}.events.loop", envelope_bytes(an_envelope(number)), {}
        )


async def test_processes_of_one_name_share_the_work_and_another_name_sees_all(
    bus: Bus, prefix: str
) -> None:
    """SR-23, SR-32."""
    seen: dict[str, list[str]] = {"one": [], "two": [], "other": []}

    def into(name: str) -> object:
        return lambda envelope: seen[name].append(envelope.message_id)

    async with (
        a_bus(bus._all.nats.url[0], prefix) as second,
        run_consumer(bus, into("one")),
        run_consumer(second, into("two")),
        run_consumer(bus, into("other"), "audit"),
    ):
        for number in range(50):
            await bus.publisher.event(an_envelope(number))
        await wait_until_settled(bus)
        await wait_until_settled(bus, "audit")
    everything = sorted(f"evt_{number}" for number in range(50))
    assert sorted(seen["one"] + seen["two"]) == sorted(seen["other"]) == everything


async def test_commands_are_consumed_by_name(bus: Bus) -> None:
    """SR-14, SR-20."""
    seen = []
    await bus.publisher.command("iteration.start", an_envelope(1, message_type="StartIteration"))
    await bus.publisher.command("oracle.run", an_envelope(2, message_type="RunOracle"))
    async with run_consumer(
        bus, lambda one: seen.append(one.message_type), category="commands", only="oracle.run"
    ):
        await wait_until_settled(bus, category="commands")
    assert seen == ["RunOracle"]


async def test_an_order_that_redeliveries_upset_leaves_the_same_effects(
    bus: Bus, tmp_path: Path
) -> None:
    """T6: a tenth is sent away at first, and comes later than what was behind it; nothing is
    missing, nothing is double.
    """
    first: set[str] = set()
    order: list[str] = []

    def handle(envelope: MessageEnvelope) -> Nak | None:
        if int(envelope.message_id[4:]) % 10 == 3 and envelope.message_id not in first:
            first.add(envelope.message_id)
            return Nak()
        order.append(envelope.message_id)
        return None

    await asyncio.gather(*(bus.publisher.event(an_envelope(number)) for number in range(200)))
    async with run_consumer(bus, handle, store=tmp_path / "keys.db"):
        await wait_until_settled(bus)
    assert len(first) == 20
    assert sorted(order) == sorted(f"evt_{number}" for number in range(200))


async def test_a_name_that_is_taken_with_another_filter_is_refused(bus: Bus) -> None:
    """SR-32: two meanings of one durable would take each other's messages."""
    async with run_consumer(bus, lambda _: None, only="loop"):
        await until(
            lambda: bus.jetstream.consumer(
                f"{bus.settings.stream_prefix}-events", bus.settings.durable("projector")
            )
        )
        with pytest.raises(Misconfigured, match="filter_subject"):
            await bus.consume("projector", lambda _: None, only="run", options=QUICK)


@pytest.mark.parametrize(
    "options", [{"name": "two words"}, {"name": "a.b"}, {"category": "queries"}]
)
async def test_a_consumer_that_can_never_be_is_refused(bus: Bus, options: dict[str, str]) -> None:
    with pytest.raises(Misconfigured):
        await bus.consume(**{"name": "ok", "handle": lambda _: None, **options})


async def test_what_a_handler_writes_is_written_once_with_its_key(bus: Bus, tmp_path: Path) -> None:
    """SR-24, X5: five copies, one row."""
    import sqlite3

    file = tmp_path / "projector.db"
    sqlite3.connect(file).execute("CREATE TABLE loops (id TEXT)").connection.commit()
    for copy in range(5):
        data = envelope_bytes(replace(an_envelope(1), causation_id=str(copy)))
        await bus.jetstream.publish(f"{bus.settings.stream_prefix}.events.loop", data, {})
    async with run_consumer(
        bus,
        lambda one: (
            lambda cursor: cursor.execute("INSERT INTO loops VALUES (?)", (one.message_id,))
        ),
        store=file,
    ):
        await wait_until_settled(bus)
    assert sqlite3.connect(file).execute("SELECT id FROM loops").fetchall() == [("evt_1",)]


async def test_a_write_that_finds_no_row_is_an_attempt_that_failed_and_its_consumer_goes_on(
    bus: Bus, tmp_path: Path
) -> None:
    """`next(cursor)` without a row raises StopIteration, which no future takes."""
    for number in (1, 2, 3):
        await bus.publisher.event(an_envelope(number))

    def handle(envelope: MessageEnvelope) -> Any:
        return (
            (lambda cursor: next(cursor.execute("SELECT 1 WHERE 0"))[0])
            if envelope.message_id == "evt_1"
            else None
        )

    async with asyncio.timeout(60), run_consumer(bus, handle, store=tmp_path / "projector.db"):
        await wait_until_settled(bus)
    (letter,) = await read_bus_stream(bus, "dlq")
    read = orjson.loads(letter.data)
    assert (read["reason"], read["source"]["attempts"]) == ("maxdeliver_exhausted", 5)
