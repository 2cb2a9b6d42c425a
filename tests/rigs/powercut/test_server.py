"""A server on such a disk waits for its fsyncs, and starts again on what a cut left."""

import time

import pytest

from tests.rigs.powercut.server import DiskBroker
from tests.support.patient_client import connect_patiently

# a file system is made, and a server starts on it
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("can_slow_fsyncs")]
FSYNC_US = 100_000
MESSAGES = 5


async def _publish(broker: DiskBroker) -> float:
    """Seconds from the first publish to the last publish ack."""
    async with await connect_patiently(broker.url) as client:
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        since = time.monotonic()
        for number in range(MESSAGES):
            await js.publish("s", b"%d" % number, timeout=30)
        return time.monotonic() - since


async def _count(broker: DiskBroker) -> int:
    async with await connect_patiently(broker.url) as client:
        return int((await client.jetstream().stream_info("S")).state.messages)


async def test_a_publish_ack_of_a_server_that_syncs_always_waits_for_the_fsync() -> None:
    """T28 in small: what was acknowledged outlives a cut."""
    with DiskBroker(sync_always=True, fsync_us=FSYNC_US) as broker:
        assert await _publish(broker) >= MESSAGES * FSYNC_US / 1e6
        broker.cut()
        broker.start()
        assert await _count(broker) == MESSAGES


async def test_a_kill_alone_takes_nothing_from_the_disk() -> None:
    """The control: it is the cut that loses, not the end of the server."""
    with DiskBroker() as broker:
        await _publish(broker)
        broker.kill()
        broker.start()
        assert await _count(broker) == MESSAGES
