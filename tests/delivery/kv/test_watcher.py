"""One listing and what comes after it, on a real server: it knows when it no longer hears
everything.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.kv import watcher
from router.delivery.kv.entries import BucketEntry, DeletedKey
from router.delivery.kv.watcher import KvWatcher
from tests.support.broker import Broker
from tests.support.buckets import Bucket, a_bucket
from tests.support.waiting import slack, until


@pytest.fixture
async def bucket(own_broker: Broker) -> AsyncIterator[Bucket]:
    async with a_bucket(own_broker.url, "B") as bucket:
        yield bucket


async def test_it_returns_when_all_that_was_there_has_been_heard(bucket: Bucket) -> None:
    for n in range(50):
        await bucket.write(f"k-{n % 10}", b"%d" % n)
    heard: list[BucketEntry | DeletedKey] = []
    following = KvWatcher(bucket.jetstream, bucket.name, heard.append)
    await following.open()
    assert [(one.key, one.value) for one in heard if isinstance(one, BucketEntry)] == [
        (f"k-{n % 10}", b"%d" % n) for n in range(40, 50)
    ]
    await bucket.write("k-0", b"later")
    await until(lambda: heard[-1].key == "k-0")
    assert following.is_complete
    await following.close()


async def test_a_connection_that_came_back_is_doubted_at_once(
    bucket: Bucket, own_broker: Broker
) -> None:
    """Its consumer died with the server; the heartbeats would tell only later."""
    following = KvWatcher(bucket.jetstream, bucket.name, lambda found: None)
    await following.open()
    own_broker.kill()
    own_broker.start()
    await until(
        lambda: (
            bucket.jetstream.connection.reconnect_count and bucket.jetstream.connection.is_connected
        )
    )
    assert not following.is_complete
    await following.close()


async def test_a_deleted_consumer_is_missed_by_its_heartbeats(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "HEARTBEAT_S", 0.5)
    following = KvWatcher(bucket.jetstream, bucket.name, lambda found: None)
    await following.open()
    (name,) = (await bucket.jetstream.ask(f"CONSUMER.NAMES.KV_{bucket.name}"))["consumers"]
    await bucket.jetstream.ask(f"CONSUMER.DELETE.KV_{bucket.name}.{name}")
    await until(lambda: not following.is_complete)
    await following.close()


async def test_a_bucket_that_is_not_there_is_said(bucket: Bucket) -> None:
    following = KvWatcher(bucket.jetstream, "NOWHERE", lambda found: None)
    with pytest.raises(BrokerUnavailable, match="there is no bucket NOWHERE"):
        await following.open()
    await following.close()


async def test_closing_waits_for_no_callback(bucket: Bucket, own_broker: Broker) -> None:
    """A server that is killed at that moment confirms nothing, and the watcher must subscribe again
    at once.
    """
    following = KvWatcher(bucket.jetstream, bucket.name, lambda found: None)
    await following.open()
    own_broker.pause()
    async with asyncio.timeout(slack()):
        await following.close()
    own_broker.unpause()


async def test_a_closed_one_leaves_no_consumer_behind(bucket: Bucket) -> None:
    """A hundred histories asked for at once would reach the server's limit of consumers."""
    for _ in range(3):
        following = KvWatcher(bucket.jetstream, bucket.name, lambda found: None)
        await following.open()
        await following.close()
    await until(partial(_has_no_consumer, bucket))


async def _has_no_consumer(bucket: Bucket) -> bool:
    return not (await bucket.jetstream.ask(f"CONSUMER.NAMES.KV_{bucket.name}"))["consumers"]
