"""`kill -9` between a bill and what follows from it: the notice of a held cost, and the correction
by a later outcome, are stored once.
"""

import asyncio
import json
from collections.abc import Iterator

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.kills import KILLED, KilledProcess
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_stream,
    results_are_settled,
    store_assignment,
)
from tests.support.service import names_for, settings_for
from tests.support.stories import Json, make_topology
from tests.support.waiting import until

PACE = {"results.ack_wait_ms": 1_000}


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(
        nats_url, prefix, **{name.replace(".", "__"): value for name, value in PACE.items()}
    )


@pytest.fixture
def router(nats_url: str, prefix: str) -> Iterator[KilledProcess]:
    process = KilledProcess({**names_for(nats_url, prefix), **PACE})
    yield process
    process.remove()


@pytest.mark.parametrize(
    ("point", "passes"), [("before_publish", 2), ("after_publish", 2), ("after_commit", 1)]
)
async def test_a_held_cost_has_its_notice(
    nc: Client, settings: Settings, router: KilledProcess, point: str, passes: int
) -> None:
    await make_topology(settings)
    ids = await store_assignment(nc, settings, 1)
    await publish_result(nc, settings, a_result(1, **ids, cost=1e9))
    await _die_and_go_on(nc, settings, router, point, passes)
    (bill,) = await _read(nc, settings.streams.usage.name)
    (notice,) = await _read(nc, settings.streams.held.name)
    assert (bill["cost"], bill["told_cost"], notice) == (1.0, 1e9, bill)


@pytest.mark.parametrize(
    ("point", "passes"), [("before_publish", 3), ("after_publish", 3), ("after_commit", 2)]
)
async def test_a_later_outcome_corrects_the_bill_once(
    nc: Client, settings: Settings, router: KilledProcess, point: str, passes: int
) -> None:
    await make_topology(settings)
    ids = await store_assignment(nc, settings, 1)
    for status, cost in (("timeout", 0.01), ("success", 0.03)):
        await publish_result(nc, settings, a_result(1, **ids, status=status, cost=cost))
    await _die_and_go_on(nc, settings, router, point, passes)
    bill, correction = await _read(nc, settings.streams.usage.name)
    assert (bill["status"], bill["cost"]) == ("timeout", 0.01)
    assert (correction["adjusts"], correction["cost"]) == (bill["event_id"], 0.02)


async def _die_and_go_on(
    nc: Client, settings: Settings, router: KilledProcess, point: str, passes: int
) -> None:
    router.crash_at(point, passes)
    router.spawn()
    assert await asyncio.to_thread(router.wait) == KILLED
    router.crash_nowhere()
    await asyncio.to_thread(router.start)
    await until(lambda: results_are_settled(nc, settings), within_s=30)


async def _read(nc: Client, stream: str) -> list[Json]:
    return [json.loads(data) for _, data, _ in await read_stream(nc, stream)]
