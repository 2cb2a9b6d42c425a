"""A mirror of a bucket on a real server: complete when it opens, current within moments, and never
empty because the server is away.
"""

import asyncio

import pytest
from nats.aio.client import Client

from router.core.errors import BrokerUnavailable
from router.delivery.kv import mirror as mirror_module
from router.delivery.kv import watcher
from router.delivery.kv.mirror import BucketMirror, skip_seeding
from router.delivery.wire.api import JetStream
from tests.support.broker import Broker
from tests.support.buckets import Bucket, Mirror, a_bucket, a_mirror
from tests.support.delivery import CallRecorder, connected
from tests.support.waiting import until

BACK_S = 2.0  # from a reconnect to the truth
SILENT_S = 4.0  # the same where only missed heartbeats tell


@pytest.fixture(autouse=True)
def _quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "HEARTBEAT_S", 0.5)


@pytest.fixture
def quick_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is noticed by a missed heartbeat."""
    monkeypatch.setattr(mirror_module, "ARRIVAL_S", 0.2)
    monkeypatch.setattr(watcher, "HEARTBEAT_S", 20.0)


async def test_the_first_word_is_everything_that_is_there(bucket: Bucket, nats_url: str) -> None:
    await asyncio.gather(
        *(bucket.documents.put(f"k-{n}", b"%d" % n, revision=None) for n in range(200))
    )
    await bucket.write("k-0", b"again")
    async with a_mirror(nats_url, bucket.name) as mirror:
        await until(lambda: mirror.told)
        assert mirror.told[0] == {"k-0": b"again", **{f"k-{n}": b"%d" % n for n in range(1, 200)}}
        assert mirror.watched.check.ok


async def test_an_empty_bucket_is_told_too(bucket: Bucket, nats_url: str) -> None:
    async with a_mirror(nats_url, bucket.name) as mirror:
        await mirror.shows({})


async def test_changes_and_deletions_are_told_at_once_and_whole(
    bucket: Bucket, nats_url: str
) -> None:
    """At once: no other listing comes before an hour is over."""
    async with (
        a_mirror(nats_url, bucket.name, again_s=3600.0) as one,
        a_mirror(nats_url, bucket.name, again_s=3600.0) as other,
    ):
        for mirror in (one, other):
            await mirror.shows({})
        first = await bucket.documents.put("a", b"1", revision=None)
        await bucket.documents.put("b", b"1", revision=None)
        for mirror in (one, other):
            await mirror.shows({"a": b"1", "b": b"1"})
        await bucket.documents.delete("a", revision=first)
        for mirror in (one, other):
            await mirror.shows({"b": b"1"})


async def test_what_was_deleted_before_is_not_there(bucket: Bucket, nats_url: str) -> None:
    await bucket.documents.delete(
        "a", revision=await bucket.documents.put("a", b"1", revision=None)
    )
    async with a_mirror(nats_url, bucket.name) as mirror:
        await mirror.shows({})


async def test_a_bucket_that_was_written_is_listed_again_and_only_what_is_new_is_told(
    bucket: Bucket, nats_url: str
) -> None:
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name, again_s=0.1) as mirror:
        await mirror.shows({"a": b"1"})
        for value in (b"2", b"3"):
            before = mirror.watched._watcher
            await bucket.write("a", value)
            await mirror.shows({"a": value})
            await until(lambda before=before: mirror.watched._watcher is not before)  # type: ignore[misc]
        assert mirror.told == [{"a": b"1"}, {"a": b"2"}, {"a": b"3"}]


async def test_a_bucket_without_changes_is_looked_at_and_not_listed(
    monkeypatch: pytest.MonkeyPatch, bucket: Bucket, nats_url: str, nc: Client
) -> None:
    monkeypatch.setattr(watcher, "HEARTBEAT_S", 20.0)  # a server that stands still is not lost
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name, again_s=0.1) as mirror:
        await until(lambda: mirror.told)
        first, calls = mirror.watched._watcher, CallRecorder()
        await nc.subscribe(f"$JS.API.STREAM.INFO.KV_{bucket.name}", cb=calls.on_message)
        await until(lambda: len(calls.heard) >= 3, what="three looks")
        assert mirror.watched._watcher is first


async def test_entries_that_were_purged_without_a_word_are_missed_by_the_next_look(
    bucket: Bucket, nats_url: str
) -> None:
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name, again_s=0.1) as mirror:
        await mirror.shows({"a": b"1"})
        await bucket.jetstream.ask(f"STREAM.PURGE.KV_{bucket.name}")
        await mirror.shows({})


async def test_after_a_kill_of_the_server_what_others_wrote_is_there_within_two_seconds(
    own_broker: Broker,
) -> None:
    async with a_bucket(own_broker.url, "B") as bucket, a_mirror(own_broker.url, "B") as mirror:
        await bucket.write("a", b"1")
        await mirror.shows({"a": b"1"})
        for value in (b"2", b"3"):
            own_broker.kill()
            assert mirror.now is not None
            own_broker.start()
            async with connected(own_broker.url) as other_client:
                await JetStream(other_client).publish("$KV.B.a", value, {})
            await until(lambda: mirror.watched._jetstream.connection.is_connected)
            await mirror.shows({"a": value}, within_s=BACK_S)
            assert mirror.watched.check.ok


async def test_while_the_server_is_away_the_last_known_state_serves_and_readiness_says_so(
    own_broker: Broker,
) -> None:
    async with a_bucket(own_broker.url, "B") as bucket, a_mirror(own_broker.url, "B") as mirror:
        await bucket.write("a", b"1")
        await mirror.shows({"a": b"1"})
        told = list(mirror.told)
        own_broker.kill()
        await until(lambda: not mirror.watched.check.ok)
        assert "last known state" in mirror.watched.check.detail
        assert {key: entry.value for key, entry in mirror.watched.entries.items()} == {"a": b"1"}
        own_broker.start()
        await until(lambda: mirror.watched.check.ok)
        assert mirror.told == told


async def test_a_bucket_that_is_gone_is_away_and_a_new_one_is_the_truth(
    bucket: Bucket, nats_url: str
) -> None:
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name) as mirror:
        await mirror.shows({"a": b"1"})
        await bucket.unmake()
        await until(lambda: "there is no bucket" in mirror.watched.check.detail)
        assert mirror.told == [{"a": b"1"}]
        await bucket.make()
        await bucket.write("b", b"2")
        await mirror.shows({"b": b"2"}, within_s=SILENT_S)
        assert mirror.watched.check.ok


async def test_a_bucket_made_again_before_it_was_read_is_noticed(
    bucket: Bucket, nats_url: str
) -> None:
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name) as mirror:
        await mirror.shows({"a": b"1"})
        await bucket.unmake()
        await bucket.make()
        await bucket.write("a", b"2")
        await mirror.shows({"a": b"2"}, within_s=SILENT_S)


async def _delete_its_consumer(bucket: Bucket) -> None:
    """As when the server dies that had it: the mirror hears nothing of it."""
    (name,) = (await bucket.jetstream.ask(f"CONSUMER.NAMES.KV_{bucket.name}"))["consumers"]
    await bucket.jetstream.ask(f"CONSUMER.DELETE.KV_{bucket.name}.{name}")


async def _look_at_infos(mirror: Mirror, bucket: Bucket) -> None:
    assert mirror.infos is not None
    await mirror.infos.stream(f"KV_{bucket.name}")


async def test_a_change_that_did_not_come_is_missed_by_the_next_info(
    bucket: Bucket, nats_url: str, quick_arrival: None
) -> None:
    async with a_mirror(nats_url, bucket.name, has_infos=True) as mirror:
        await mirror.shows({})
        await _delete_its_consumer(bucket)
        await _look_at_infos(mirror, bucket)
        await bucket.write("a", b"1")
        await asyncio.sleep(2 * mirror_module.ARRIVAL_S)
        assert mirror.told == [{}]  # the info is older than the change, and heartbeats are rare
        await _look_at_infos(mirror, bucket)
        await mirror.shows({"a": b"1"}, within_s=SILENT_S)
        assert mirror.watched.check.ok


async def test_a_bucket_that_an_info_shows_made_again_is_listed(
    bucket: Bucket, nats_url: str, quick_arrival: None
) -> None:
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name, has_infos=True) as mirror:
        await mirror.shows({"a": b"1"})
        await bucket.unmake()
        await _look_at_infos(mirror, bucket)
        await until(lambda: "there is no bucket" in mirror.watched.check.detail)
        await bucket.make()
        await bucket.write("a", b"2")
        await mirror.shows({"a": b"2"}, within_s=SILENT_S)
        await until(lambda: mirror.watched.check.ok)  # the info is older than this listing


async def test_a_change_that_an_info_tells_of_may_be_on_its_way(
    bucket: Bucket, nats_url: str, quick_arrival: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the watcher is left alone for a while, and listed again only after it."""
    async with a_mirror(nats_url, bucket.name, has_infos=True) as mirror:
        await mirror.shows({})
        assert mirror.infos is not None
        monkeypatch.setattr(mirror_module, "ARRIVAL_S", 3600.0)
        before = mirror.watched._watcher
        await _look_at_infos(mirror, bucket)
        (told,) = [answer for answer in mirror.infos._answers.values() if answer is not None]
        told.info["state"]["last_seq"] += 1  # type: ignore[index]
        await asyncio.sleep(6 * mirror_module.MIRROR_TICK_S)
        assert mirror.watched._watcher is before
        assert mirror.watched.check.ok
        monkeypatch.setattr(mirror_module, "ARRIVAL_S", 0.0)
        await until(lambda: mirror.watched._watcher is not before)


async def test_an_info_of_what_was_removed_before_the_listing_leaves_the_watcher(
    bucket: Bucket, nats_url: str, quick_arrival: None
) -> None:
    """No message comes of it; if it counted as missed, each info would cost a listing."""
    await bucket.write("a", b"1")
    await bucket.jetstream.ask(f"STREAM.PURGE.KV_{bucket.name}")
    async with a_mirror(nats_url, bucket.name, has_infos=True) as mirror:
        await mirror.shows({})
        before = mirror.watched._watcher
        await _look_at_infos(mirror, bucket)
        await asyncio.sleep(3 * mirror_module.ARRIVAL_S)
        assert mirror.watched._watcher is before
        assert mirror.watched.check.ok


async def test_an_info_of_what_has_come_leaves_the_watcher(
    bucket: Bucket, nats_url: str, quick_arrival: None
) -> None:
    await bucket.write("a", b"1")
    async with a_mirror(nats_url, bucket.name, has_infos=True) as mirror:
        await mirror.shows({"a": b"1"})
        await bucket.write("a", b"2")
        await bucket.documents.delete("a", revision=2)
        await mirror.shows({})
        await bucket.jetstream.ask(f"STREAM.PURGE.KV_{bucket.name}")
        before = mirror.watched._watcher
        await _look_at_infos(mirror, bucket)
        await asyncio.sleep(3 * mirror_module.ARRIVAL_S)
        assert mirror.watched._watcher is before
        assert mirror.watched.check.ok


async def test_a_server_that_hangs_is_told_and_found_again(own_broker: Broker) -> None:
    async with a_bucket(own_broker.url, "B") as bucket, a_mirror(own_broker.url, "B") as mirror:
        await bucket.write("a", b"1")
        await mirror.shows({"a": b"1"})
        own_broker.pause()
        await until(lambda: not mirror.watched.check.ok)
        own_broker.unpause()
        await bucket.write("a", b"2")
        await mirror.shows({"a": b"2"}, within_s=SILENT_S)


async def test_a_watcher_that_goes_on_by_itself_makes_the_mirror_ready_again_without_another_listing(
    own_broker: Broker,
) -> None:
    """Its server stood still: a listing failed meanwhile, and the next one is far away."""
    async with a_bucket(own_broker.url, "B") as bucket, a_mirror(own_broker.url, "B") as mirror:
        await bucket.write("a", b"1")
        await mirror.shows({"a": b"1"})
        own_broker.pause()
        await until(lambda: "no answer" in mirror.watched.check.detail)
        mirror.watched._retry._due_at = float("inf")  # no listing any more
        own_broker.unpause()
        await until(lambda: mirror.watched.check.ok)
        await bucket.write("a", b"2")
        await mirror.shows({"a": b"2"})
        await until(lambda: mirror.watched._cause is None)


async def test_who_must_not_begin_without_is_told_when_there_is_nothing_to_list(
    nats_url: str,
) -> None:
    async with connected(nats_url) as connection:
        watched = BucketMirror(
            JetStream(connection), "NOT_THERE", lambda entries: None, on_replaced=skip_seeding
        )
        with pytest.raises(BrokerUnavailable, match="topology apply"):
            await watched.load()
        assert not watched.check.ok
