"""Effects that go in atomic batches: stored, refused, cut off, and where a stream takes none."""

import asyncio
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.publish_costs import write_in_batches
from tests.support.router_streams import (
    FAST,
    a_result,
    publish_result,
    read_assignments,
    read_usage,
    results_are_settled,
)
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    is_settled,
    make_topology,
    read_dead_letters,
)
from tests.support.waiting import until

COUNT = 150


@pytest.fixture(autouse=True)
def _in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    write_in_batches(monkeypatch)


def _settings(nats_url: str, prefix: str, **more: object) -> Settings:
    return settings_for(nats_url, prefix, **{**FAST, "results__ack_wait_ms": 5_000, **more})


async def _count_batched(nc: Client, stream: str) -> int:
    """How many messages came to a stream in batches."""
    info = await nc.jsm().stream_info(stream)
    found = 0
    for sequence in range(info.state.first_seq, info.state.last_seq + 1):
        message = await nc.jsm().get_msg(stream, sequence)
        found += "Nats-Batch-Id" in (message.headers or {})
    return found


async def _report_all(nc: Client, settings: Settings) -> None:
    for number in range(COUNT):
        await publish_result(nc, settings, a_result(number))


async def _all_is_metered(nc: Client, settings: Settings) -> None:
    await until(lambda: results_are_settled(nc, settings))
    metered = sorted(str(event["assignment_id"]) for event in await read_usage(nc, settings))
    assert metered == sorted(f"a-{number}" for number in range(COUNT))
    assert await read_dead_letters(nc, settings) == []


async def test_results_that_wait_are_metered_once_and_their_events_go_in_batches(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    await _report_all(nc, settings)
    async with a_router(settings):
        await _all_is_metered(nc, settings)
    assert await _count_batched(nc, settings.streams.usage.name) >= 2


async def test_an_event_that_is_stored_already_refuses_its_batch_and_not_its_neighbours(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """10201. Another router metered some of them, and died before it acknowledged them."""
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    await _report_all(nc, settings)
    async with a_router(settings):
        await _all_is_metered(nc, settings)
    await _report_all(nc, settings)
    async with a_router(settings):
        await _all_is_metered(nc, settings)


async def test_a_batch_that_a_full_stream_refuses_waits_and_is_metered_after_repair(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    await _limit(nc, settings.streams.usage.name, 40)
    await _report_all(nc, settings)
    async with a_router(settings):
        await until(lambda: _holds(nc, settings.streams.usage.name, 40))
        durable = (settings.streams.results.name, settings.results.durable)
        assert (await nc.jsm().consumer_info(*durable)).ack_floor.stream_seq <= 40
        await _limit(nc, settings.streams.usage.name, -1)
        await _all_is_metered(nc, settings)


async def test_a_stream_that_takes_no_batches_is_written_one_by_one(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Made by an older version, or by an operator: the start does not change it."""
    settings = _settings(nats_url, prefix, topology="check")
    await make_topology(_settings(nats_url, prefix, effects__batches=False))
    await _report_all(nc, settings)
    async with a_router(settings):
        await _all_is_metered(nc, settings)
    assert await _count_batched(nc, settings.streams.usage.name) == 0


async def test_assignments_go_in_batches_after_their_records_and_each_once(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix)
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, "batches")
    for number in range(COUNT):
        await inboxes.publish_named(nc, settings, number, a_request(number, push_assignment=True))
    async with a_router(settings):
        await until(lambda: is_settled(nc, settings))
        await until(lambda: len(inboxes.heard) >= COUNT)
    assigned = sorted(str(one["request_id"]) for one in await read_assignments(nc, settings))
    assert assigned == sorted(f"r-{number}" for number in range(COUNT))
    assert await _count_batched(nc, settings.streams.assignments.name) >= 2
    records = f"KV_{settings.buckets.assignments_known.name}"
    assert await _count_batched(nc, records) >= 2
    assert await _last_stored(nc, records) < await _last_stored(
        nc, settings.streams.assignments.name
    )


async def test_a_broker_that_dies_while_batches_are_on_their_way_has_each_event_once(
    prefix: str,
) -> None:
    broker = Broker().start()
    nc = await connect_patiently(broker.url, reconnect_time_wait=0.05)
    try:
        settings = _settings(broker.url, prefix)
        await make_topology(settings)
        await _report_all(nc, settings)
        async with a_router(settings):
            await until(lambda: _holds(nc, settings.streams.usage.name, 1))
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await _all_is_metered(nc, settings)
    finally:
        await nc.close()
        broker.remove()


async def _limit(nc: Client, stream: str, most: int) -> None:
    """Let a stream hold so many messages, and refuse more."""
    config: Any = (await nc.jsm().stream_info(stream)).config
    await nc.jsm().update_stream(config.evolve(max_msgs=most))


async def _holds(nc: Client, stream: str, least: int) -> bool:
    return (await nc.jsm().stream_info(stream)).state.messages >= least


async def _last_stored(nc: Client, stream: str) -> str:
    """When, as the server's text, which sorts as time does."""
    info = await nc.jsm().stream_info(stream)
    message = await nc.jsm().get_msg(stream, info.state.last_seq)
    return str(message.time)
