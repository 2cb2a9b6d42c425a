"""Measures every partition of the decide subject: how many requests wait, and whether a router
takes them.

Each router looks at the partitions that its settings name, and at all whose streams it finds on the
server. So a partition whose routers are all dead is told by those of the others. One of the routers
asks the server, and all hear the answers (`delivery.wire.shared_info`): with N partitions it is 2 N
calls each 15 s, however many routers there are.
"""

from __future__ import annotations

import asyncio
from functools import partial

from router.config import Settings
from router.contracts.alert import CRITICAL, INFO, Alert
from router.core.clock import spread
from router.core.errors import BrokerRefused, PermissionDenied, RouterError
from router.decide.partitions.partition_lease import lease_key
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.shared_info import SharedAnswer, SharedInfo
from router.operate.alerts import Alerts
from router.operate.topology.declared_topology import list_partitions, partition_stream
from router.process.observability import Metrics, events, logs

log = logs.logger(__name__)

PARTITIONS_EVERY_S = 15.0  # far above a lease: a lease that is renewed has another revision by then
MAX_AGE = 0.5  # of an answer that counts as this look's, as a part of the time between two looks
LEAST_BETWEEN = 0.5  # likewise, between two answers that are compared
LIST_EVERY = 4  # looks between two lists of the partitions


class PartitionMonitor:
    """A helper of the tree, where `decide.partition` is set."""

    def __init__(
        self,
        settings: Settings,
        jetstream: JetStream,
        metrics: Metrics,
        alerts: Alerts,
        infos: SharedInfo,
    ) -> None:
        self._decide = settings.decide
        self._stream = settings.streams.decide.name
        self._jetstream = jetstream
        self._infos = infos
        self._leases = DocumentBucket(jetstream, settings.buckets.partitions.name)
        self._metrics = metrics
        self._alerts = alerts
        # each partition's, with the revision of its lease then
        self._before: dict[str, SharedAnswer] = {}
        self._unattended: set[str] = set()

    async def run(self) -> None:
        """Measure until cancelled. A broker that is unavailable is shown by its own readiness
        check.
        """
        while True:
            await self.look()
            await asyncio.sleep(spread(PARTITIONS_EVERY_S))

    async def look(self) -> None:
        """Measure each partition once."""
        try:
            for partition in await self._list():
                await self._measure(partition)
        except RouterError:
            self._before.clear()  # what the routers did meanwhile is not known

    async def _list(self) -> list[str]:
        key = f"PARTITIONS.{self._stream}.{self._decide.subject}"
        listed = await self._infos.read(key, LIST_EVERY * PARTITIONS_EVERY_S, self._ask_list) or {}
        return sorted(
            {*listed.get("partitions", ()), self._decide.partition or "", *self._decide.standby}
        )

    async def _ask_list(self) -> Json | None:
        try:
            return {
                "partitions": await list_partitions(
                    self._jetstream, self._stream, self._decide.subject
                )
            }
        except (PermissionDenied, BrokerRefused):
            return None

    async def _measure(self, partition: str) -> None:
        label, stream = (
            self._metrics.partition[partition],
            partition_stream(self._stream, partition),
        )
        key, ask = (
            f"PARTITION.{stream}.{self._decide.durable}",
            partial(self._ask, stream, partition),
        )
        answer = await self._infos.read_answer(key, MAX_AGE * PARTITIONS_EVERY_S, ask)
        info, before = answer.info or {}, self._before.setdefault(partition, answer)
        if (pending := info.get("pending")) is not None:
            self._metrics.partition_pending.set(pending, label)
        if answer.at - before.at < LEAST_BETWEEN * PARTITIONS_EVERY_S:
            return
        self._before[partition] = answer
        is_attended = info.get("revision") != (before.info or {}).get("revision")
        self._metrics.partition_attended.set(int(is_attended), label)
        self._report(partition, is_attended=is_attended)

    async def _ask(self, stream: str, partition: str) -> Json:
        info = await self._jetstream.consumer(stream, self._decide.durable)
        newest = await self._leases.read_newest(lease_key(partition))
        pending = info["num_pending"] if info is not None else None
        return {"pending": pending, "revision": newest.revision if newest is not None else 0}

    def _report(self, partition: str, *, is_attended: bool) -> None:
        if is_attended is (partition not in self._unattended):
            return
        if is_attended:
            self._unattended.discard(partition)
            log.info(events.PARTITION_ATTENDED, partition=partition)
            self._raise(
                INFO,
                f"partition_attended:{partition}",
                f"A router takes the requests of partition {partition} again",
            )
        else:
            self._unattended.add(partition)
            log.error(events.PARTITION_UNATTENDED, partition=partition)
            self._raise(
                CRITICAL,
                f"partition_unattended:{partition}",
                f"No router takes the requests of partition {partition}",
            )

    def _raise(self, severity: str, cause: str, text: str) -> None:
        self._alerts.raise_alert(
            Alert(severity=severity, component="router.partitions", cause=cause, message=text)
        )
