"""A lease ends when its key keeps its revision, by the watcher's own clock; of several that take it
the server lets one win.
"""

import pytest

from router.core.errors import Conflict
from router.delivery.kv.lease import LeaseBucket, LeaseWatch
from tests.support.app import ManualClock
from tests.support.buckets import a_bucket


class Watched:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.watch = LeaseWatch(3.0, self.clock)

    def is_over_after(self, seconds: float, revision: int) -> bool:
        self.clock.now += seconds
        self.watch.on_revision(revision)
        return self.watch.is_over


def test_a_lease_that_is_renewed_in_time_is_never_over() -> None:
    watched = Watched()
    assert not any(watched.is_over_after(2.9, revision) for revision in range(1, 10))


def test_a_lease_is_over_when_its_revision_stays_the_same_for_its_whole_time() -> None:
    watched = Watched()
    assert [watched.is_over_after(1.0, 7) for _ in range(4)] == [False, False, False, True]


def test_a_key_that_holds_nothing_is_free_after_the_whole_time() -> None:
    """Its owner may be starting."""
    watched = Watched()
    assert [watched.is_over_after(1.5, 0) for _ in range(3)] == [False, False, True]


def test_a_bucket_that_could_not_be_read_ends_no_lease() -> None:
    """Its holder could not renew it either."""
    watched = Watched()
    watched.is_over_after(0.0, 7)
    watched.clock.now += 60.0
    watched.watch.on_unreadable()
    assert [watched.is_over_after(1.5, 7) for _ in range(3)] == [False, False, True]


async def test_of_two_that_read_the_same_revision_one_gets_the_lease(
    nats_url: str, prefix: str
) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        leases = LeaseBucket(bucket.jetstream, prefix)
        revision = await leases.renew("0", b"owner")
        await leases.replace("0", b"one standby", revision)
        with pytest.raises(Conflict):
            await leases.replace("0", b"another", revision)


async def test_an_owner_renews_whatever_the_key_holds(nats_url: str, prefix: str) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        leases = LeaseBucket(bucket.jetstream, prefix)
        taken = await leases.replace("0", b"standby", 0)
        await leases.renew("0", b"owner")
        with pytest.raises(Conflict):
            await leases.replace("0", b"standby", taken)
