"""Every field that the specification's table of the envelope does not mark optional is in every
message of the bus.
"""

import orjson

from router.bus.subjects import COMMAND_NAMES
from tests.support.bus import EXAMPLE, a_bus, an_envelope, read_bus_stream
from tests.support.spec_tables import find_faults_in

SERIES = (
    {},
    {"correlation_id": "req_1"},
    {"causation_id": "evt_0", "correlation_id": "req_1"},
    {"payload": {}},
    {"payload": {"text": "ü", "nested": {"a": [1, None]}}},
    {"message_type": "NoDomain"},
    {"actor_kind": "HUMAN", "timestamp": "2024-01-15T14:30:00.123456789Z"},
    {"actor_kind": "AGENT", "idempotency_key": "k-1"},
)


async def test_every_envelope_has_the_fields_of_its_table(nats_url: str, prefix: str) -> None:
    """SR-1 to SR-10, SR-21, SR-26."""
    async with a_bus(nats_url, prefix) as bus:
        for number, facts in enumerate(SERIES):
            await bus.publisher.event(an_envelope(number, **facts))
        for number, command in enumerate(COMMAND_NAMES):
            await bus.publisher.command(command, an_envelope(number, message_type="Command"))
        await bus.publish(
            "LoopCreated", {}, message_id="evt_least", actor_id="u", actor_kind="SYSTEM"
        )
        stored = [*await read_bus_stream(bus, "events"), *await read_bus_stream(bus, "commands")]
    envelopes = [orjson.loads(one.data) for one in stored]
    least = len(SERIES) + len(COMMAND_NAMES) + 1
    assert find_faults_in("bus_envelope", envelopes, least=least) == []
    assert find_faults_in("bus_headers", [one.headers for one in stored], least=least) == []
    assert all(list(one) == list(EXAMPLE) for one in envelopes), (
        "all ten fields, null where a link is absent"
    )
    assert all(
        one.headers["Nats-Msg-Id"] == envelope["idempotency_key"]
        for one, envelope in zip(stored, envelopes, strict=True)
    )
