"""What a program of the bus shows in a scrape: each end of a publication and of a message is
counted once.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import pytest
from msgspec.structs import replace

from router.bus import BusHandler, BusMetrics, BusSettings, MemoryProcessed, Nak, Publisher, Term
from router.bus.consumer import EnvelopeProcessor, Interest, consumer_of, durable_of
from router.bus.metrics import ConsumerMeter
from router.bus.subjects import apply_topology
from router.contracts.envelope import MessageEnvelope, envelope_bytes
from router.core.errors import Poison
from router.core.message import Message
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.topology import Topology
from router.sdk.bus import Bus
from tests.support.bus import QUICK, a_bus, an_envelope, wait_until_settled
from tests.support.observability import http_get, parse_scrape, serve_http

Labels = tuple[tuple[str, str], ...]


async def consumed(bus: Bus, metrics: BusMetrics, handle: BusHandler) -> Labels:
    """Everything that is stored goes through one consumer; its labels."""
    durable = durable_of(bus.settings, Interest(name="projector"), QUICK)
    await apply_topology(bus.jetstream, bus.settings, Topology((), (durable,)))
    handling = EnvelopeProcessor(
        bus.settings, handle, MemoryProcessed(), ConsumerMeter(metrics, durable.durable)
    )
    working = asyncio.create_task(
        consumer_of(bus.settings, durable, handling, bus.jetstream, options=QUICK).run()
    )
    await wait_until_settled(bus)
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return (("consumer", durable.durable),)


def handle(envelope: MessageEnvelope) -> Nak | Term | None:
    match envelope.message_id:
        case "evt_2":
            return Term()
        case "evt_3":
            return Nak()
        case _:
            return None


async def test_each_message_is_counted_by_what_became_of_it(nats_url: str, prefix: str) -> None:
    metrics = BusMetrics()
    async with a_bus(nats_url, prefix) as bus:
        for number in (1, 2, 3):
            await bus.publisher.event(an_envelope(number))
        subject = f"{prefix}.events.loop"
        await bus.jetstream.publish(subject, b"no JSON", {})
        await bus.jetstream.publish(
            subject, (await bus.jetstream.message(f"{prefix}-events", 1)).data, {}
        )  # type: ignore[union-attr]
        mine = await consumed(bus, metrics, handle)
    seen = parse_scrape(metrics.registry)
    (name, durable) = mine[0]
    assert seen["router_bus_delivered_total"] == {mine: 1 + 1 + QUICK.max_attempts + 1 + 1}
    assert seen["router_bus_duplicates_total"] == {mine: 1}
    assert seen["router_bus_violations_total"] == {
        (("code", "SCHEMA_VALIDATION_FAILED"), (name, durable)): 1
    }
    reasons = {"processing_error": 1, "maxdeliver_exhausted": 1, "validation_failed": 1}
    assert seen["router_bus_dlq_total"] == {
        ((name, durable), ("reason", reason)): count for reason, count in reasons.items()
    }
    assert seen["router_bus_handler_seconds_count"] == {mine: 1 + 1 + QUICK.max_attempts}


async def test_each_publication_is_counted_by_what_became_of_it(nats_url: str, prefix: str) -> None:
    metrics = BusMetrics()
    async with a_bus(nats_url, prefix) as bus, open_publisher(bus.jetstream) as publisher:
        bus_publisher = Publisher(bus.settings, bus.jetstream.connection, publisher, metrics)
        for _ in range(2):
            await bus_publisher.event(an_envelope(1))
        with pytest.raises(Poison):
            await bus_publisher.event(replace(an_envelope(2), schema_version="9.9"))
    subject = ("subject", f"{prefix}.events.loop")
    counted = {(("code", code), subject): 1 for code in ("stored", "duplicate", Poison.code)}
    assert parse_scrape(metrics.registry)["router_bus_published_total"] == counted


async def test_a_handler_that_raises_took_its_time_too() -> None:
    def fail(_: MessageEnvelope) -> None:
        raise ZeroDivisionError

    metrics = BusMetrics()
    handling = EnvelopeProcessor(
        BusSettings(), fail, MemoryProcessed(), ConsumerMeter(metrics, "c")
    )
    answer = handling(
        Message("sr.events.loop", envelope_bytes(an_envelope()), {}, "sr-events", "c", 1, 0, 1, "")
    )
    assert isinstance(answer, Awaitable)
    with pytest.raises(ZeroDivisionError):
        await answer
    assert parse_scrape(metrics.registry)["router_bus_handler_seconds_count"] == {
        (("consumer", "c"),): 1
    }


async def test_a_program_shows_them_on_a_page_of_its_own() -> None:
    metrics = BusMetrics()
    ConsumerMeter(metrics, "c").on_delivery()
    async with serve_http(metrics.registry) as port:
        status, page = await http_get(port, "/metrics")
    assert (status, b'router_bus_delivered_total{consumer="c"} 1.0' in page) == (200, True)
