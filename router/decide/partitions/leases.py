"""Keeps the lease of a partition: its own router renews it, a standby takes the partition's
requests while no router does.

    owner     renews every third of the lease while it takes requests, whatever the key holds;
              deletes the key when it ends
    standby   watches ──> deleted, or no renewal for a whole lease ──> takes the lease by its revision ──> takes the requests
                 └───── drains ─────────────── the owner has renewed: the revision is another <──┘

A lease decides only which router pulls. Each message is delivered to one of those that pull, acked
by it, and redelivered if it dies, as with any number of routers on one durable. So two routers that
take one partition at the same time cost what exactness a tenant had by always meeting the same
router, and no message is lost or handled twice for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable

from router.config import Settings
from router.contracts.alert import INFO, WARNING, Alert
from router.contracts.stored_record import record_bytes
from router.core.clock import Clock, steady
from router.core.errors import Conflict, RouterError
from router.decide.partitions.partition_lease import (
    PartitionLease,
    lease_key,
    read_lease,
    standby_key,
)
from router.delivery.kv.entries import BucketEntry, DeletedKey
from router.delivery.kv.lease import LeaseBucket, LeaseWatch
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.operate.alerts import Alerts
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

START_S = 0.05  # between two looks whether the consumer has started
PRESENCE_S = 15.0  # between two records of a standby that it is there
GIVE_UP_TRIES = 3


def build_lease_bucket(settings: Settings, connection: Connection) -> LeaseBucket:
    """Its requests wait less than the time between two renewals, so that one lost answer costs no
    second renewal.
    """
    jetstream = JetStream(connection, settings.nats.js_domain, settings.decide.lease_renewed_s)
    return LeaseBucket(jetstream, settings.buckets.partitions.name)


class OwnerLease:
    """A supervised child beside the consumer of this router's own partition."""

    def __init__(
        self, bucket: LeaseBucket, settings: Settings, is_taking: Callable[[], bool]
    ) -> None:
        self._bucket = bucket
        self._partition = settings.decide.partition or ""
        self._span_s, self._every_s = settings.decide.lease_s, settings.decide.lease_renewed_s
        self._record = record_bytes(
            PartitionLease(settings.node_id, uuid.uuid4().hex, is_owner=True)
        )
        self._is_taking = is_taking
        self._lines = LogRateLimit(every_s=60.0)

    async def run(self) -> None:
        """Renew until cancelled, then give the lease up. A renewal that fails costs nothing but a
        takeover that was not needed.
        """
        try:
            while True:
                if not self._is_taking():
                    await asyncio.sleep(START_S)
                    continue
                await self._renew()
                await asyncio.sleep(self._every_s)
        finally:
            with contextlib.suppress(RouterError):
                await self._give_up()

    async def _renew(self) -> None:
        try:
            await self._bucket.renew(lease_key(self._partition), self._record)
        except RouterError as exc:
            _report_failure(self._lines, self._partition, exc)

    async def _give_up(self) -> None:
        """A standby need not wait for the end of the lease. The lease stays if another owner has
        renewed it since.

        It is read first: whether the last renewal was stored is not known if the end came within
        it. Raises RouterError.
        """
        key = lease_key(self._partition)
        for _ in range(GIVE_UP_TRIES):
            newest = await self._bucket.read_newest(key)
            if not isinstance(newest, BucketEntry) or newest.value != self._record:
                return
            with contextlib.suppress(Conflict):  # that renewal was stored after it was read
                await self._bucket.delete(key, revision=newest.revision)
                return


class StandbyLease:
    """A supervised child: it runs `consume` while it has the lease. `consume` drains when it is
    cancelled.
    """

    def __init__(
        self,
        bucket: LeaseBucket,
        settings: Settings,
        consume: Callable[[], Awaitable[None]],
        *,
        on_taken_over: Callable[[], None],
        on_handed_back: Callable[[], None],
        clock: Clock = steady,
    ) -> None:
        self._bucket = bucket
        self._partition = settings.decide.partition or ""
        self._span_s, self._every_s = settings.decide.lease_s, settings.decide.lease_renewed_s
        self._instance = uuid.uuid4().hex
        self._record = record_bytes(PartitionLease(settings.node_id, self._instance))
        self._consume = consume
        self._on_taken_over = on_taken_over
        self._on_handed_back = on_handed_back
        self._clock = clock
        self._present_at = -PRESENCE_S
        self._lines = LogRateLimit(every_s=60.0)
        self.holder = ""  # the node that has the lease, as far as this one knows
        self.has_lease = False

    async def run(self) -> None:
        """Stand by, take over, hand back, until cancelled."""
        while True:
            if (revision := await self._take()) is None:
                await asyncio.sleep(self._every_s)
                continue
            self._on_taken_over()
            await self._consume_and_renew(revision)
            self._on_handed_back()

    # -- standing by -------------------------------------------------------------------------------

    async def _take(self) -> int | None:
        """The revision of the lease that this process has taken; None: another one was faster, or
        the bucket does not answer.
        """
        revision = await self._wait_until_over()
        try:
            return await self._write(revision)
        except Conflict:
            return None
        except RouterError as exc:
            _report_failure(self._lines, self._partition, exc)
            return None

    async def _wait_until_over(self) -> int:
        """The revision at which no router has renewed the lease for its whole time, or its owner
        has given it up.
        """
        watch = LeaseWatch(self._span_s, self._clock)
        while True:
            try:
                await self._show_presence()
                newest = await self._bucket.read_newest(lease_key(self._partition))
            except RouterError as exc:
                watch.on_unreadable()
                _report_failure(self._lines, self._partition, exc)
            else:
                revision = newest.revision if newest is not None else 0
                watch.on_revision(revision)
                if self._is_own(newest) or isinstance(newest, DeletedKey) or watch.is_over:
                    return revision
            await asyncio.sleep(self._every_s)

    def _is_own(self, newest: object) -> bool:
        """Note the holder. True: it is this process, whose consumer was started again."""
        lease = read_lease(newest.value) if isinstance(newest, BucketEntry) else None
        self.holder = lease.node_id if lease is not None else ""
        return lease is not None and lease.instance == self._instance

    async def _show_presence(self) -> None:
        if (now := self._clock()) - self._present_at >= PRESENCE_S:
            await self._bucket.renew(standby_key(self._partition), self._record)
            self._present_at = now

    async def _write(self, revision: int) -> int:
        return await self._bucket.replace(lease_key(self._partition), self._record, revision)

    # -- taking the requests -----------------------------------------------------------------------

    async def _consume_and_renew(self, revision: int) -> None:
        """Returns when the lease is another's and the consumer has drained; raises what the
        consumer raises.
        """
        self.has_lease = True
        consuming = asyncio.ensure_future(self._consume())
        renewing = asyncio.create_task(self._renew(revision))
        try:
            await asyncio.wait((consuming, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            renewing.cancel()
            await _end(consuming)
            self.has_lease = False
        if not consuming.cancelled():
            consuming.result()

    async def _renew(self, revision: int) -> None:
        """Renew until the lease is another's."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._show_presence()
                revision = await self._write(revision)
            except Conflict:
                own = await self._find_own()
                if own is None:
                    return
                revision = own
            except RouterError as exc:
                # another router that could take over cannot read the bucket either
                _report_failure(self._lines, self._partition, exc)

    async def _find_own(self) -> int | None:
        """The lease's revision if it is this process's after all: the publish ack of its last
        renewal was lost.
        """
        while True:
            try:
                newest = await self._bucket.read_newest(lease_key(self._partition))
            except RouterError:
                await asyncio.sleep(self._every_s)
                continue
            return newest.revision if newest is not None and self._is_own(newest) else None


async def _end(consuming: asyncio.Future[None]) -> None:
    """Cancel it and wait until it has drained; a second cancellation is passed on."""
    consuming.cancel()
    try:
        await asyncio.wait((consuming,))
    except asyncio.CancelledError:
        consuming.cancel()
        raise


def _report_failure(lines: LogRateLimit, partition: str, exc: RouterError) -> None:
    if lines.allow(type(exc).__name__):
        log.warning(events.LEASE_UNAVAILABLE, partition=partition, cause=str(exc))


def report_taken_over(alerts: Alerts, settings: Settings) -> None:
    partition = settings.decide.partition
    log.warning(events.PARTITION_TAKEN_OVER, partition=partition)
    text = f"Partition {partition} is taken over: none of its own routers renews its lease"
    alerts.raise_alert(
        Alert(
            severity=WARNING,
            component="router.partitions",
            cause=f"partition_taken_over:{partition}",
            message=text,
        )
    )


def report_handed_back(alerts: Alerts, settings: Settings) -> None:
    partition = settings.decide.partition
    log.info(events.PARTITION_HANDED_BACK, partition=partition)
    text = f"Partition {partition} is handed back: a router of its own takes its requests"
    alerts.raise_alert(
        Alert(
            severity=INFO,
            component="router.partitions",
            cause=f"partition_handed_back:{partition}",
            message=text,
        )
    )
