"""Issue 7, the bus: the broker is killed under load, and comes back on the same store."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from router.core.errors import BrokerUnavailable
from router.sdk.bus import Bus
from tests.support.broker import Broker
from tests.support.bus import (
    MORTAL,
    a_bus,
    an_envelope,
    read_bus_stream,
    run_consumer,
    wait_until_settled,
)

KILLS = 5
SHARE = 100


@pytest.mark.slow  # five servers are killed and started
async def test_nothing_that_was_acknowledged_is_lost_and_nothing_is_done_twice(
    broker: Broker, tmp_path: Path
) -> None:
    """T10, SR-22, SR-23: a publication without a publish ack is made again, and is the same
    message.
    """
    counts: Counter[str] = Counter()
    async with a_bus(broker.url, "sr") as bus:
        async with run_consumer(
            bus,
            lambda one: counts.update([one.message_id]),
            store=tmp_path / "keys.db",
            options=MORTAL,
        ):
            for life in range(KILLS):
                publishing = asyncio.create_task(
                    _published(bus, range(life * SHARE, (life + 1) * SHARE))
                )
                await _some_are_stored(bus, publishing)
                broker.kill()
                await asyncio.to_thread(broker.start)
                await publishing
            await wait_until_settled(bus)
        assert counts == {f"evt_{number}": 1 for number in range(KILLS * SHARE)}
        ids = Counter(
            message.headers["Nats-Msg-Id"] for message in await read_bus_stream(bus, "events")
        )
        assert len(ids) == KILLS * SHARE


async def _published(bus: Bus, share: range) -> None:
    for number in share:
        await _until_stored(bus, number)


async def _until_stored(bus: Bus, number: int) -> None:
    while True:
        try:
            await asyncio.wait_for(bus.publisher.event(an_envelope(number)), 1.0)
        except (BrokerUnavailable, TimeoutError):
            continue
        return


async def _some_are_stored(bus: Bus, publishing: "asyncio.Task[None]") -> None:
    """A moment in the middle of the share."""
    await asyncio.wait({publishing}, timeout=0.02)
