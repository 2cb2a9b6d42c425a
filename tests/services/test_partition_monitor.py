"""Every partition is measured, also one that this router's settings do not name, and one without a router is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from router.app import declare_topology
from router.config import Settings
from router.delivery.api import JetStream
from router.delivery.buckets.lease import LeaseBucket
from router.delivery.connection import Connection
from router.delivery.topology import create
from router.operations.observability import Metrics
from router.services import partition_monitor
from router.services.partition_monitor import PartitionMonitor
from tests.support.app import RecordedAlerts
from tests.support.delivery import connected
from tests.support.observability import parse_scrape
from tests.support.service import settings_for
from tests.support.waiting import until

LOOK_S = 0.05


class Monitored:
    """A monitor whose settings name partition 0; partition 1 is another router's."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        self.metrics = Metrics()
        self.told = RecordedAlerts()
        self.leases = LeaseBucket(JetStream(connection), settings.buckets.partitions.name)
        self.monitor = PartitionMonitor(settings, JetStream(connection), self.metrics, self.told.alerts)

    def gauge(self, name: str, partition: str) -> float | None:
        return parse_scrape(self.metrics.registry).get(f"router_partition_{name}", {}).get((("partition", partition),))

    async def renew(self) -> None:
        """Partition 0 has a router, partition 1 none."""
        while True:
            await self.leases.renew("0", b"{}")
            await asyncio.sleep(LOOK_S / 5)


@contextlib.asynccontextmanager
async def monitored(url: str, prefix: str) -> AsyncIterator[Monitored]:
    names = {"buckets__partitions__name": f"{prefix.upper()}_PARTITIONS"}
    async with connected(url) as connection:
        for partition in "01":
            settings = settings_for(url, prefix, decide__partition=partition, **names)
            await create(JetStream(connection), declare_topology(settings))
        await connection.publish(f"{settings.decide.subject}.p.1", b"one that waits")
        monitored = Monitored(connection, settings_for(url, prefix, decide__partition="0", **names))
        jobs = [asyncio.create_task(job) for job in (monitored.renew(), monitored.monitor.run())]
        try:
            yield monitored
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.wait(jobs)


async def test_a_partition_without_a_router_is_told_and_its_backlog_counted(
    nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_monitor, "PARTITIONS_EVERY_S", LOOK_S)
    async with monitored(nats_url, prefix) as seen:
        await until(lambda: seen.gauge("attended", "1") == 0)
        await until(lambda: seen.gauge("attended", "0") == 1)
        assert (seen.gauge("pending", "0"), seen.gauge("pending", "1")) == (0, 1)
        assert "partition_unattended:1" in seen.told.causes
        await seen.leases.renew("1", b"{}")
        await until(lambda: "partition_attended:1" in seen.told.causes)
