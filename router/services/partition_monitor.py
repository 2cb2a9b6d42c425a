"""Measures every partition of the decide subject: how many requests wait, and whether a router takes them.

Each router looks at the partitions that its settings name, and more seldom at all whose streams it finds on the server. So a partition
whose routers are all dead is told by those of the others.
"""

from __future__ import annotations

import asyncio

from router.config import Settings
from router.contracts.alert import CRITICAL, INFO, Alert
from router.contracts.partition_lease import lease_key
from router.core.errors import BrokerRefused, PermissionDenied, RouterError
from router.delivery.api import JetStream
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.partitions import list_partitions, partition_stream
from router.operations.observability import Metrics, events, logs
from router.services.alerts import Alerts

log = logs.logger(__name__)

PARTITIONS_EVERY_S = 15.0  # far above a lease: a lease that is renewed has another revision by then
ALL_EVERY = 4  # looks at the partitions of the settings between two looks at all


class PartitionMonitor:
    """A helper of the tree, where `decide.partition` is set."""

    def __init__(self, settings: Settings, jetstream: JetStream, metrics: Metrics, alerts: Alerts) -> None:
        self._decide = settings.decide
        self._stream = settings.streams.decide.name
        self._jetstream = jetstream
        self._leases = DocumentBucket(jetstream, settings.buckets.partitions.name)
        self._metrics = metrics
        self._alerts = alerts
        self._revisions: dict[str, int] = {}  # of each lease, at the last look
        self._unattended: set[str] = set()

    async def run(self) -> None:
        """Measure until cancelled. A broker that is unavailable is shown by its own readiness check."""
        looks = 0
        while True:
            try:
                for partition in await self._list_all() if looks % ALL_EVERY == 0 else self._list_known():
                    await self._measure(partition)
            except RouterError:
                self._revisions.clear()  # what the routers did meanwhile is not known
            looks += 1
            await asyncio.sleep(PARTITIONS_EVERY_S)

    def _list_known(self) -> list[str]:
        return [self._decide.partition or "", *self._decide.standby]

    async def _list_all(self) -> list[str]:
        try:
            found = await list_partitions(self._jetstream, self._stream, self._decide.subject)
        except (PermissionDenied, BrokerRefused):
            found = []
        return sorted({*found, *self._list_known()})

    async def _measure(self, partition: str) -> None:
        label = self._metrics.partition[partition]
        info = await self._jetstream.consumer(partition_stream(self._stream, partition), self._decide.durable)
        if info is not None:
            self._metrics.partition_pending.set(info["num_pending"], label)
        newest = await self._leases.read_newest(lease_key(partition))
        revision = newest.revision if newest is not None else 0
        before, self._revisions[partition] = self._revisions.get(partition), revision
        if before is not None:
            self._metrics.partition_attended.set(int(revision != before), label)
            self._report(partition, is_attended=revision != before)

    def _report(self, partition: str, *, is_attended: bool) -> None:
        if is_attended is (partition not in self._unattended):
            return
        if is_attended:
            self._unattended.discard(partition)
            log.info(events.PARTITION_ATTENDED, partition=partition)
            self._raise(INFO, f"partition_attended:{partition}", f"A router takes the requests of partition {partition} again")
        else:
            self._unattended.add(partition)
            log.error(events.PARTITION_UNATTENDED, partition=partition)
            self._raise(CRITICAL, f"partition_unattended:{partition}", f"No router takes the requests of partition {partition}")

    def _raise(self, severity: str, cause: str, text: str) -> None:
        self._alerts.raise_alert(Alert(severity=severity, component="router.partitions", cause=cause, message=text))
