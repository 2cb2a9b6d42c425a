"""Who takes a partition's requests, over a bucket on a real server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from router.config import Settings
from router.core.clock import Clock, steady
from router.decide.partitions.leases import OwnerLease, StandbyLease
from router.decide.settings import DecideConfig
from router.delivery.kv.entries import DeletedKey
from router.delivery.kv.lease import LeaseBucket
from router.delivery.wire.api import JetStream
from tests.support.app import ManualClock
from tests.support.buckets import a_bucket
from tests.support.waiting import until

SPAN_S = 0.15


class OftenLookedAt(DecideConfig):
    """A long lease, which is looked at as often as a short one."""

    @property
    def lease_renewed_s(self) -> float:
        return SPAN_S / 3


def some_settings(
    node_id: str, span_s: float, section: type[DecideConfig] = DecideConfig
) -> Settings:
    return Settings(node_id=node_id, decide=section(partition="0", lease_ms=round(span_s * 1000)))


class Standby:
    """A standby whose consumer only notes that it runs; it drains until `drained` is set."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        node_id: str,
        section: type[DecideConfig] = DecideConfig,
        span_s: float = SPAN_S,
        *,
        clock: Clock = steady,
    ) -> None:
        self.node_id = node_id
        self.log: list[str] = []
        self.drained = asyncio.Event()
        self.drained.set()
        self.crash = asyncio.Event()
        self.lease = StandbyLease(
            LeaseBucket(jetstream, bucket),
            some_settings(node_id, span_s, section),
            self.consume,
            on_taken_over=lambda: self.log.append("taken over"),
            on_handed_back=lambda: self.log.append("handed back"),
            clock=clock,
        )

    async def consume(self) -> None:
        self.log.append("consumes")
        try:
            await self.crash.wait()
            raise RuntimeError("crashed")
        finally:
            self.log.append("stops")
            await self.drained.wait()
            self.log.append("drained")


@contextlib.asynccontextmanager
async def running(*jobs: StandbyLease | OwnerLease) -> AsyncIterator[list["asyncio.Task[None]"]]:
    tasks = [asyncio.create_task(job.run()) for job in jobs]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def an_owner(jetstream: JetStream, bucket: str) -> OwnerLease:
    return OwnerLease(LeaseBucket(jetstream, bucket), some_settings("owner", SPAN_S), lambda: True)


async def test_a_standby_takes_a_lease_that_is_not_renewed_and_hands_it_back_when_its_owner_returns(
    nats_url: str, prefix: str
) -> None:
    """The standby's clock is the test's: an owner that is slow to renew on a busy machine loses
    nothing.
    """
    clock = ManualClock()

    def pass_lease() -> bool:
        clock.now += SPAN_S
        return standby.log == ["taken over", "consumes"]

    async with a_bucket(nats_url, prefix) as bucket:
        standby = Standby(bucket.jetstream, prefix, "b", clock=clock)
        async with running(standby.lease):
            await until(pass_lease)
            async with running(an_owner(bucket.jetstream, prefix)):
                await until(
                    lambda: (
                        standby.log == ["taken over", "consumes", "stops", "drained", "handed back"]
                    )
                )
                assert not standby.lease.has_lease
            await until(lambda: standby.log.count("taken over") == 2)


async def test_an_owner_that_ends_gives_the_lease_up(nats_url: str, prefix: str) -> None:
    """A standby need not wait: with this one's lease of an hour the test would not end."""
    async with a_bucket(nats_url, prefix) as bucket:
        standby = Standby(bucket.jetstream, prefix, "b", OftenLookedAt, span_s=3600.0)
        async with running(standby.lease):
            async with running(an_owner(bucket.jetstream, prefix)):
                await until(lambda: standby.lease.holder == "owner")
            await until(lambda: standby.lease.has_lease)


class SlowToHear(LeaseBucket):
    """Its second renewal is stored, and the answer does not come."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        super().__init__(jetstream, bucket)
        self.renewals = 0

    async def renew(self, key: str, value: bytes) -> int:
        revision = await super().renew(key, value)
        self.renewals += 1
        if self.renewals == 2:
            await asyncio.Event().wait()
        return revision


async def test_an_owner_that_ends_within_a_renewal_gives_the_lease_up(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        leases = SlowToHear(bucket.jetstream, prefix)
        async with running(OwnerLease(leases, some_settings("owner", SPAN_S), lambda: True)):
            await until(lambda: leases.renewals == 2)
        assert isinstance(await leases.read_newest("0"), DeletedKey)


async def test_an_owner_that_ends_leaves_the_lease_that_another_owner_has_renewed(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        leases = LeaseBucket(bucket.jetstream, prefix)
        owner = OwnerLease(leases, some_settings("owner", 3600.0), lambda: True)
        async with running(owner):
            await until(lambda: bucket.documents.get("0"))
            await leases.renew("0", b"another owner")
        entry = await bucket.documents.get("0")
        assert entry is not None
        assert entry.value == b"another owner"


async def test_it_hands_back_only_after_its_consumer_has_drained(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        standby = Standby(bucket.jetstream, prefix, "b")
        standby.drained.clear()
        async with running(standby.lease):
            await until(lambda: standby.lease.has_lease)
            async with running(an_owner(bucket.jetstream, prefix)):
                await until(lambda: "stops" in standby.log)
                assert standby.lease.has_lease
                standby.drained.set()
                await until(lambda: not standby.lease.has_lease)


async def test_one_of_two_standbys_takes_the_lease(nats_url: str, prefix: str) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        leases = LeaseBucket(bucket.jetstream, prefix)
        # so a lease of an hour is free at once
        await leases.delete("0", revision=await leases.renew("0", b"an owner that has ended"))
        standbys = [
            Standby(bucket.jetstream, prefix, name, OftenLookedAt, span_s=3600.0) for name in "bc"
        ]
        async with running(*(one.lease for one in standbys)):
            await until(lambda: any("consumes" in one.log for one in standbys))
            assert sorted(one.log for one in standbys) == [[], ["taken over", "consumes"]]
            (holder,) = (one for one in standbys if one.lease.has_lease)
            (other,) = (one for one in standbys if one is not holder)
            await until(lambda: other.lease.holder == holder.node_id)


async def test_a_consumer_that_fails_is_raised_and_its_restart_waits_for_no_lease(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        standby = Standby(bucket.jetstream, prefix, "b")
        async with running(standby.lease) as (task,):
            await until(lambda: standby.lease.has_lease)
            standby.crash.set()
            await asyncio.wait({task})
            with pytest.raises(RuntimeError, match="crashed"):
                task.result()
            assert not standby.lease.has_lease
        standby.crash.clear()
        async with running(standby.lease):
            await until(lambda: standby.log.count("consumes") == 2)


async def test_a_cancelled_standby_drains_first(nats_url: str, prefix: str) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        standby = Standby(bucket.jetstream, prefix, "b")
        async with running(standby.lease):
            await until(lambda: standby.lease.has_lease)
        assert standby.log == ["taken over", "consumes", "stops", "drained"]


async def test_an_owner_that_does_not_take_requests_renews_nothing(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        takes, looks = asyncio.Event(), list[bool]()

        def is_taking() -> bool:
            looks.append(takes.is_set())
            return takes.is_set()

        async with running(
            OwnerLease(
                LeaseBucket(bucket.jetstream, prefix), some_settings("owner", SPAN_S), is_taking
            )
        ):
            await until(lambda: len(looks) >= 3)
            assert await bucket.documents.get("0") is None
            takes.set()
            await until(lambda: bucket.documents.get("0"))
