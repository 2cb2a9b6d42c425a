"""Publishing on a real server: subjects, ids, publish acks, refusals."""

import asyncio

import orjson
import pytest
from msgspec.structs import replace

from router.bus import UnknownSubject
from router.bus.subjects import COMMAND_NAMES
from router.contracts.envelope import envelope_bytes
from router.core.errors import BrokerRefused, BrokerUnavailable, Poison
from router.sdk.bus import Bus
from tests.support.bus import EXAMPLE, a_bus, an_envelope, read_bus_stream


async def test_an_event_is_stored_on_the_subject_of_its_type_with_its_key_as_message_id(
    bus: Bus, prefix: str
) -> None:
    """SR-13, SR-21, SR-22, SR-26: what stands in the stream is the envelope, and its id the
    idempotency key.
    """
    envelope = an_envelope(message_type="FreezeLifted")
    publish_ack = await bus.publisher.event(envelope)
    (found,) = await read_bus_stream(bus, "events")
    assert (publish_ack.stream, publish_ack.sequence, publish_ack.is_duplicate) == (
        f"{prefix}-events",
        found.sequence,
        False,
    )
    assert (found.subject, found.headers["Nats-Msg-Id"]) == (
        f"{prefix}.events.freeze",
        envelope.idempotency_key,
    )
    assert found.data == envelope_bytes(envelope)
    assert orjson.loads(found.data)["schema_version"] == "1.0"


async def test_the_same_event_again_is_stored_once_within_the_window(bus: Bus) -> None:
    """SR-22, T5: from the same connection and from another one; the publish ack says where the
    first one stands.
    """
    event = {
        "message_type": "LoopCreated",
        "payload": {"b": 1.0, "a": 2},
        "message_id": "evt_1",
        "actor_id": "u",
        "actor_kind": "AGENT",
    }
    again = {**event, "payload": {"a": 2, "b": 1}}
    first = await bus.publish(**event)
    async with a_bus(bus._all.nats.url[0], bus.settings.stream_prefix) as other:
        later = await asyncio.gather(bus.publish(**again), other.publish(**event))
    assert [(one.sequence, one.is_duplicate) for one in later] == [(first.sequence, True)] * 2
    assert len(await read_bus_stream(bus, "events")) == 1


async def test_another_event_of_the_same_content_is_another_message(bus: Bus) -> None:
    """SR-3, SR-22."""
    for number in (1, 2):
        await bus.publish(
            "LoopCreated", {}, message_id=f"evt_{number}", actor_id="u", actor_kind="HUMAN"
        )
    assert len(await read_bus_stream(bus, "events")) == 2


async def test_all_four_commands_are_stored(bus: Bus, prefix: str) -> None:
    """SR-20, SR-14, X3: a stream on `sr.commands.*` would take none of them, and a publisher would
    hear 503.
    """
    for number, command in enumerate(COMMAND_NAMES):
        await bus.publisher.command(command, an_envelope(number, message_type="Command"))
    assert [one.subject for one in await read_bus_stream(bus, "commands")] == [
        f"{prefix}.commands.{one}" for one in COMMAND_NAMES
    ]
    with pytest.raises(UnknownSubject):
        await bus.publisher.command("iteration.stop", an_envelope(9))


async def test_a_thousand_at_once_share_one_window_of_publish_acks(bus: Bus) -> None:
    publish_acks = await asyncio.gather(
        *(bus.publisher.event(an_envelope(number)) for number in range(1000))
    )
    assert {publish_ack.sequence for publish_ack in publish_acks} == set(range(1, 1001))


@pytest.mark.parametrize(
    "facts", [{"payload": {"x": "y" * 1024 * 1024}}, {"schema_version": "0.9"}]
)
async def test_what_consumers_would_refuse_is_not_sent(bus: Bus, facts: dict[str, object]) -> None:
    """SR-26: only supported versions are emitted; and the server would close the connection for too
    large a frame.
    """
    with pytest.raises(Poison):
        await bus.publisher.event(replace(an_envelope(), **facts))
    assert await read_bus_stream(bus, "events") == []


async def test_without_its_stream_an_event_is_not_stored_and_that_is_said(
    bus: Bus, prefix: str
) -> None:
    await bus.jetstream.ask(f"STREAM.DELETE.{prefix}-events")
    with pytest.raises(BrokerUnavailable, match="no stream takes this subject"):
        await bus.publisher.event(an_envelope())


async def test_a_servers_refusal_has_its_number(bus: Bus, prefix: str) -> None:
    info = await bus.jetstream.stream(f"{prefix}-events")
    assert info is not None
    await bus.jetstream.ask(
        f"STREAM.UPDATE.{prefix}-events", {**info["config"], "max_msg_size": 10}
    )
    with pytest.raises(BrokerRefused) as refused:
        await bus.publisher.event(an_envelope())
    assert refused.value.err_code == 10054


async def test_the_example_can_be_published_as_it_stands(bus: Bus, prefix: str) -> None:
    """SR-12, SR-10: with the outbox' own hash."""
    from router.contracts.envelope import read_envelope

    publish_ack = await bus.publisher.event(read_envelope(orjson.dumps(EXAMPLE)))
    (found,) = await read_bus_stream(bus, "events")
    assert (found.data, found.headers["Nats-Msg-Id"]) == (
        orjson.dumps(EXAMPLE),
        EXAMPLE["idempotency_key"],
    )
    assert publish_ack.id == EXAMPLE["idempotency_key"]
