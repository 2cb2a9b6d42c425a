"""A request that its stream drops before any router read it: it cannot be had back, so it is
counted, logged and alarmed.
"""

import pytest
from nats.aio.client import Client

from router.operate.topology import monitor
from tests.support.observability import capture_log
from tests.support.router_streams import FAST, AlertRecorder
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    a_request,
    has_metric,
    is_ready,
    is_settled,
    make_topology,
    read_last_sequence,
    read_metric,
)
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "TOPOLOGY_EVERY_S", 0.05)


async def test_requests_that_are_pushed_out_of_a_full_stream_are_counted_logged_and_alarmed(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(
        nats_url,
        prefix,
        streams__decide__max_bytes=20_000,
        decide__prefetch=1,
        topology="check",
        **FAST,
    )
    await make_topology(settings)
    alarms = await AlertRecorder.heard_on(nc)
    with capture_log() as logged:
        async with a_router(settings) as router:
            await nc.jetstream().delete_stream(settings.streams.dlq.name)
            await nc.publish(settings.decide.subject, b"its dead letter cannot be stored")
            await until(lambda: has_metric(router.ready.http, "router_storage_waiting", 1))
            for number in range(200):
                await nc.publish(settings.decide.subject, a_request(number))
            await until(lambda: _is_stored(nc, settings, 201))
            await until(lambda: _has_dropped(router.ready.http, 90))
            await until(
                lambda: f"unread_dropped:{settings.decide.durable}" in alarms.causes("critical")
            )

            await make_topology(settings)
            await until(lambda: is_ready(router.ready.http))
            await until(lambda: is_settled(nc, settings))
            dropped = await read_metric(router.ready.http, "router_unread_dropped_total")
            handled = await read_metric(
                router.ready.http, "router_jetstream_ack_total", consumer=settings.decide.durable
            )
            # it may be too low by what was delivered again, and is never too high
            assert 90 < dropped <= 201 - handled
    assert (
        sum(
            int(str(line["count"]))
            for line in logged.all()
            if line["event"] == "messages.dropped_unread"
        )
        == dropped
    )


async def _has_dropped(http: str, more_than: int) -> bool:
    return await read_metric(http, "router_unread_dropped_total") > more_than


async def _is_stored(nc: Client, settings: object, count: int) -> bool:
    return await read_last_sequence(nc, settings) == count  # type: ignore[arg-type]
