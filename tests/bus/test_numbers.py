"""Payloads of the bus arrive with the numbers that were sent: whole ones exactly, decimals with all
their digits when they are sent on.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import orjson
from msgspec.structs import replace

from router.bus.publisher import make_envelope
from router.contracts.envelope import MessageEnvelope, envelope_bytes, read_envelope
from router.sdk.bus import Bus
from tests.bus.test_queries import responding
from tests.support.any_json import iterate_json, read_exactly, write_object
from tests.support.bus import EXAMPLE, an_envelope, read_bus_stream, run_consumer
from tests.support.waiting import until

ROUNDS = 60


def a_foreign_envelope(payload: bytes, number: int = 1) -> bytes:
    """As a sender of another language writes it."""
    named = {"message_id": f"evt_{number}", "idempotency_key": f"k-{number}"}
    return orjson.dumps({**EXAMPLE, **named, "payload": orjson.Fragment(payload)})


def test_a_whole_number_of_any_length_is_read_exactly() -> None:
    payload = read_envelope(
        a_foreign_envelope(b'{"n":18446744073709551616,"m":-123456789012345678901234567890}')
    ).payload
    assert payload == {"n": 2**64, "m": -123456789012345678901234567890}
    assert [type(value) for value in payload.values()] == [int, int]


def test_what_is_read_and_sent_on_is_the_same() -> None:
    for payload in iterate_json(500, 7, write_object):
        sent_on = orjson.loads(
            b"[%b]" % envelope_bytes(read_envelope(a_foreign_envelope(payload)))
        )[0]
        assert sent_on["message_id"] == "evt_1"
        assert read_exactly(envelope_bytes(read_envelope(a_foreign_envelope(payload))))[
            "payload"
        ] == read_exactly(payload), payload


def test_an_object_that_was_changed_is_sent_as_it_is_now() -> None:
    read = read_envelope(a_foreign_envelope(b'{"n":0.1234567890123456789012345,"m":1}'))
    assert read.payload_json == b'{"n":0.1234567890123456789012345,"m":1}'
    read.payload["m"] = 2  # type: ignore[index]  # a handler may
    assert read_exactly(envelope_bytes(read))["payload"] == {
        "n": Decimal("0.12345678901234568"),
        "m": 2,
    }
    replaced = replace(read, payload={"o": 3})
    assert read_exactly(envelope_bytes(replaced))["payload"] == {"o": 3}


def test_an_envelope_is_made_of_numbers_of_any_length() -> None:
    made = make_envelope(
        "LoopCreated", {"n": 2**64}, message_id="evt_1", actor_id="u", actor_kind="SYSTEM"
    )
    assert read_exactly(envelope_bytes(made))["payload"] == {"n": 2**64}


async def test_a_consumer_gets_the_values_that_were_sent_and_sends_them_on(
    bus: Bus, prefix: str
) -> None:
    sent = list(iterate_json(ROUNDS, 8, write_object))
    seen: dict[str, Mapping[str, object]] = {}

    async def handle(envelope: MessageEnvelope) -> None:
        await bus.publisher.event(
            an_envelope(
                message_id=f"on_{envelope.message_id}",
                message_type="RunStarted",
                payload=envelope.payload,
            )
        )
        seen[envelope.message_id] = envelope.payload

    async def list_sent_on() -> list[dict[str, Any]]:
        return [
            read_exactly(one.data)
            for one in await read_bus_stream(bus, "events")
            if one.subject.endswith(".run")
        ]

    async with run_consumer(bus, handle, only="loop"):
        for number, payload in enumerate(sent):
            await bus.jetstream.publish(
                f"{prefix}.events.loop", a_foreign_envelope(payload, number), {}
            )
        await until(lambda: len(seen) == len(sent), within_s=60)
    sent_on = {one["message_id"]: one["payload"] for one in await list_sent_on()}
    for number, payload in enumerate(sent):
        assert seen[f"evt_{number}"] == json.loads(payload)
        assert sent_on[f"on_evt_{number}"] == read_exactly(payload), payload


async def test_a_query_and_its_answer_keep_every_digit(bus: Bus) -> None:
    async def echo(question: MessageEnvelope) -> Mapping[str, object]:
        return question.payload

    async with responding(bus, echo):
        for payload in list(iterate_json(10, 9, write_object)):
            question = read_envelope(a_foreign_envelope(payload))
            answer = await bus.query("status", question)
            told = make_envelope(
                "Told", answer, message_id="evt_1", actor_id="u", actor_kind="SYSTEM"
            )
            assert read_exactly(envelope_bytes(told))["payload"] == read_exactly(payload), payload
