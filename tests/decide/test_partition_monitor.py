"""Every partition is measured, also one that this router's settings do not name, and one without a
router is told.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from router.config import Settings
from router.core.clock import Clock, steady
from router.decide.partitions import monitor
from router.decide.partitions.monitor import PartitionMonitor
from router.delivery.kv.lease import LeaseBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.shared_info import ROUND_S, SharedInfo
from router.delivery.wire.topology import create
from router.operate.topology.declared_topology import declare_topology
from router.process.observability import Metrics
from tests.support.app import ManualClock, RecordedAlerts
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.observability import parse_scrape
from tests.support.service import settings_for
from tests.support.waiting import until

LOOK_S = 0.05


class Monitored:
    """A monitor whose settings name partition 0; partition 1 is another router's."""

    def __init__(self, connection: Connection, settings: Settings, clock: Clock = steady) -> None:
        self.connection = connection
        self.settings = settings
        self.metrics = Metrics()
        self.told = RecordedAlerts()
        self.leases = LeaseBucket(JetStream(connection), settings.buckets.partitions.name)
        self.infos = SharedInfo(JetStream(connection), clock)
        self.monitor = PartitionMonitor(
            settings, JetStream(connection), self.metrics, self.told.alerts, self.infos
        )

    def gauge(self, name: str, partition: str) -> float | None:
        return (
            parse_scrape(self.metrics.registry)
            .get(f"router_partition_{name}", {})
            .get((("partition", partition),))
        )

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
    monkeypatch.setattr(monitor, "PARTITIONS_EVERY_S", LOOK_S)
    async with monitored(nats_url, prefix) as seen:
        await until(lambda: seen.gauge("attended", "1") == 0)
        await until(lambda: seen.gauge("attended", "0") == 1)
        await until(lambda: (seen.gauge("pending", "0"), seen.gauge("pending", "1")) == (0, 1))
        assert "partition_unattended:1" in seen.told.causes
        await seen.leases.renew("1", b"{}")
        await until(lambda: "partition_attended:1" in seen.told.causes)


async def test_of_several_routers_one_asks_for_every_partition(
    own_broker: Broker, prefix: str
) -> None:
    """Calls grew with the square of the partitions: every router asked for each of them."""
    calls: Counter[str] = Counter()
    clock = ManualClock()  # an answer is as old here as on a quiet machine

    async def count(message: object) -> None:
        calls[message.subject] += 1  # type: ignore[attr-defined]

    names = {"buckets__partitions__name": f"{prefix.upper()}_PARTITIONS"}
    async with contextlib.AsyncExitStack() as stack:
        routers = []
        for partition in "012":
            connection = await stack.enter_async_context(connected(own_broker.url))
            settings = settings_for(own_broker.url, prefix, decide__partition=partition, **names)
            await create(JetStream(connection), declare_topology(settings))
            routers.append(router := Monitored(connection, settings, clock))
            await stack.enter_async_context(router.infos.listen())
            # an instance hears the others of its domain
            await router.infos.stream(f"KV_{prefix.upper()}_PARTITIONS")
        for router in routers:
            await router.monitor.look()  # each knows the names of the answers that it wants to hear
        await _until_heard(routers)
        clock.now += 2 * ROUND_S  # a later look, for which the answers are young enough
        nc = await stack.enter_async_context(connected(own_broker.url))
        await nc.subscribe("$JS.API.>", cb=count)
        await nc.flush()
        for router in routers:
            await router.monitor.look()
        await nc.flush()
    assert not calls


async def _until_heard(routers: list[Monitored]) -> None:
    """Until all of them know the answers of one."""
    for router in routers[:-1]:
        await until(
            lambda router=router: all(
                answer is None or not answer.is_own for answer in router.infos._answers.values()
            )
        )  # type: ignore[misc]
