"""Usage events cannot be stored: their results wait and the router says so, nothing is spent, and
all is metered once they can be.
"""

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.operate.topology.declared_topology import declare_topology
from tests.support.router_streams import (
    FAST,
    AlertRecorder,
    a_result,
    publish_result,
    read_usage,
    results_are_settled,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    has_attempt_records,
    is_ready,
    make_topology,
    read_acks,
    read_attempt_records,
    read_dead_letters,
    read_metric,
)
from tests.support.waiting import until

COUNT = 20
KEPT_ALIVE = 4  # signals of a message: three come in an ack wait


def _settings(nats_url: str, prefix: str, **more: object) -> Settings:
    return settings_for(nats_url, prefix, **{**FAST, "results__ack_wait_ms": 3_000, **more})


async def test_without_their_stream_results_wait_and_all_is_metered_after_repair(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Issue 3, story 3: the stream is gone, and the router makes none again."""
    settings = _settings(nats_url, prefix, topology="check")
    await make_topology(settings)
    alarms = await AlertRecorder.heard_on(nc)
    async with a_router(settings) as router:
        await nc.jsm().delete_stream(settings.streams.usage.name)
        await _report_all(nc, settings)
        await _is_told(settings, router, alarms, "storage_refused", "router_storage_waiting")
        await _nothing_is_lost_while_it_lasts(nc, settings, router)
        await make_topology(settings)
        await _all_is_metered(nc, settings, router)


async def test_with_a_full_stream_results_wait_and_all_is_metered_after_repair(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Issue 3, story 3: the stream is full."""
    settings = _settings(nats_url, prefix, streams__usage__max_bytes=1_500)
    alarms = await AlertRecorder.heard_on(nc)
    async with a_router(settings) as router:
        await _report_all(nc, settings)
        await _is_told(settings, router, alarms, "storage_refused", "router_storage_waiting")
        await _nothing_is_lost_while_it_lasts(nc, settings, router)
        await make_topology(_settings(nats_url, prefix, streams__usage__max_bytes=1_000_000))
        await _all_is_metered(nc, settings, router)


async def test_a_window_shorter_than_the_memory_of_requests_stops_the_start(
    nats_url: str, prefix: str
) -> None:
    """Assignments: an assignment published again must be recognised as long as its request is."""
    with pytest.raises(Exception, match=r"streams\.assignments\.duplicate_window_ms"):
        _settings(nats_url, prefix, streams__assignments__duplicate_window_ms=1000)
    (stream,) = [
        one
        for one in declare_topology(_settings(nats_url, prefix)).streams
        if one.name.endswith("_ASSIGNMENTS")
    ]
    assert (stream.discard, stream.duplicate_window) == ("new", 600.0)


async def _report_all(nc: Client, settings: Settings) -> None:
    for number in range(COUNT):
        await publish_result(nc, settings, a_result(number))


async def _is_told(
    settings: Settings, router: Running, alarms: AlertRecorder, cause: str, gauge: str
) -> None:
    await until(lambda: _tells(router, gauge))
    await until(lambda: f"{cause}:{settings.results.durable}" in alarms.causes("critical"))


async def _nothing_is_lost_while_it_lasts(nc: Client, settings: Settings, router: Running) -> None:
    jsm, names = nc.jsm(), (settings.streams.results.name, settings.results.durable)
    before = await jsm.consumer_info(*names)
    assert before.num_ack_pending > 0
    assert await read_acks(nc, *names, messages=before.num_ack_pending, signals=KEPT_ALIVE) == {
        b"+WPI"
    }
    after = await jsm.consumer_info(*names)
    assert after.num_ack_pending >= before.num_ack_pending
    assert after.ack_floor.stream_seq == before.ack_floor.stream_seq
    assert await read_attempt_records(nc, settings) == []
    assert not await is_ready(router.ready.http)


async def _all_is_metered(nc: Client, settings: Settings, router: Running) -> None:
    await until(lambda: is_ready(router.ready.http))
    await until(lambda: results_are_settled(nc, settings))
    metered = sorted(event["assignment_id"] for event in await read_usage(nc, settings))
    assert metered == sorted(f"a-{number}" for number in range(COUNT))
    await until(lambda: has_attempt_records(nc, settings, 0))
    assert await read_dead_letters(nc, settings) == []


async def _tells(router: Running, gauge: str) -> bool:
    return await read_metric(router.ready.http, gauge) > 0
