"""Openings and closings in a bucket, on a real server: known to all, the last word wins, and never
an echo.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson
from msgspec.structs import asdict, replace

from router.contracts.stored_record import record_bytes
from router.core.breakers import CLOSED, HALF_OPEN, OPEN, BreakerTransition
from router.delivery.kv.entries import BucketEntry
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.policies.breakers import SharedBreakers
from router.policies.model.breakers import BreakerRecord, breaker_key
from tests.support.breakers import SomeProviders
from tests.support.buckets import Bucket
from tests.support.delivery import connected
from tests.support.supervision import run_children
from tests.support.waiting import until

PAIR = ("acme", "openai")
KEY = breaker_key(*PAIR)
RECORD = BreakerRecord(
    tenant_id="acme",
    provider_id="openai",
    state="open",
    opened_at_ms=1,
    until_ms=0,
    node="other",
    life="another",
)


class Instance(SomeProviders):
    """One router's breakers, sharing a bucket with others."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        super().__init__()
        self.shared = SharedBreakers(
            jetstream, bucket, "node", now=self.clock, wall_clock=self.clock.today
        )
        self.shared.attach(self.breakers.apply_remote, self.limits.apply_remote)
        self.breakers._on_change = self._own

    def _own(self, transition: BreakerTransition) -> None:
        self.transitions.append(transition)
        if not transition.is_remote:
            self.shared.note(transition)

    async def is_now(self, state: str) -> None:
        await until(lambda: self.state() == state, what=f"{state}, not {self.state()}")

    async def has_written(self) -> None:
        await until(lambda: not self.shared._unwritten)


@contextlib.asynccontextmanager
async def an_instance(url: str, bucket: str) -> AsyncIterator[Instance]:
    async with connected(url) as connection:
        instance = Instance(JetStream(connection), bucket)
        async with run_children(instance.shared.follow, instance.shared.write):
            yield instance


async def test_what_one_opens_and_closes_all_honour(bucket: Bucket, nats_url: str) -> None:
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        one.report(3)
        await other.is_now(OPEN)
        assert [one.is_remote for one in other.transitions] == [True]
        for instance in (one, other):
            instance.clock.at = 10.0
        one.succeed(2)
        await other.is_now(CLOSED)
        assert other.breakers.find_not_closed("acme") is None


async def test_an_instance_that_starts_later_begins_with_what_the_others_know(
    bucket: Bucket, nats_url: str
) -> None:
    async with an_instance(nats_url, bucket.name) as one:
        one.report(3)
        await one.has_written()
    async with an_instance(nats_url, bucket.name) as late:
        await late.is_now(OPEN)


async def test_the_record_says_until_when_and_who(bucket: Bucket, nats_url: str) -> None:
    async with an_instance(nats_url, bucket.name) as one:
        one.report(3)
        await one.has_written()
        entry = await bucket.documents.get(KEY)
    assert entry is not None
    record = orjson.loads(entry.value)
    assert {name: record[name] for name in ("tenant_id", "provider_id", "state", "node")} == {
        "tenant_id": "acme",
        "provider_id": "openai",
        "state": "open",
        "node": "node",
    }
    assert record["until_ms"] - record["opened_at_ms"] == 10_000


async def test_half_open_is_each_instances_own(bucket: Bucket, nats_url: str) -> None:
    async with an_instance(nats_url, bucket.name) as one:
        one.report(3)
        await one.has_written()
        one.clock.at = 10.0
        one.succeed(1)
        assert (one.state(), one.shared._unwritten) == (HALF_OPEN, {})


async def test_of_two_that_write_at_once_the_last_one_wins_everywhere(
    bucket: Bucket, nats_url: str
) -> None:
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        one.report(3)
        await other.is_now(OPEN)
        for instance in (one, other):
            instance.clock.at = 10.0
        one.succeed(2)
        other.report(1)
        await asyncio.gather(one.has_written(), other.has_written())
        entry = await bucket.documents.get(KEY)
        assert entry is not None
        await until(lambda: one.state() == other.state() == orjson.loads(entry.value)["state"])


async def test_what_another_client_wrote_changes_nothing(bucket: Bucket, nats_url: str) -> None:
    async with an_instance(nats_url, bucket.name) as one:
        foreign = {
            "tenant_id": "acme",
            "provider_id": "openai",
            "state": "open",
            "opened_at_ms": 1,
            "until_ms": 9**15,
            "node": "x",
            "life": "y",
        }
        await bucket.write(KEY, b"junk")
        await bucket.write(breaker_key("other", "openai"), orjson.dumps(foreign))
        await bucket.write(
            breaker_key("acme", "anthropic"), orjson.dumps({**foreign, "provider_id": "anthropic"})
        )
        await until(lambda: one.state("acme", "anthropic") == OPEN)
        assert (one.state(), one.state("other")) == (None, None)


async def test_while_the_bucket_is_away_each_goes_by_its_own_and_tells_later(
    bucket: Bucket, nats_url: str
) -> None:
    await bucket.unmake()
    async with (
        an_instance(nats_url, bucket.name) as one,
        an_instance(nats_url, bucket.name) as other,
    ):
        one.report(3)
        await until(lambda: not one.shared._mirror.check.ok)
        assert (one.state(), list(one.shared._unwritten)) == (OPEN, [KEY])
        await bucket.make()
        await other.is_now(OPEN)


class OneKey:
    """A bucket of one key, with the methods of a mirror and of a store: each write meets a revision
    that this process has not read yet.
    """

    def __init__(self) -> None:
        self.entries: dict[str, BucketEntry] = {}
        self.written = b""

    async def put(self, key: str, value: bytes, *, revision: int | None) -> int:
        self.written = value
        return 5


def entry_of(revision: int, **fields: object) -> BucketEntry:
    record = BreakerRecord(**{**asdict(RECORD), **fields})  # type: ignore[arg-type]
    return BucketEntry(KEY, record_bytes(record), revision, 0)


async def test_what_came_after_our_own_write_but_was_heard_before_its_publish_ack_is_not_lost() -> (
    None
):
    some, bucket = SomeProviders(), OneKey()
    shared = a_sharing(some)
    shared._documents = shared._mirror = bucket  # type: ignore[assignment]
    some.report(3)
    shared.note(some.transitions[0])
    bucket.entries = {KEY: entry_of(6, state="closed")}
    shared.on_change(bucket.entries)
    assert some.state() == OPEN
    writing = asyncio.create_task(shared.write())
    await until(lambda: some.state() == CLOSED)
    writing.cancel()


async def write_own_opening(some: SomeProviders, bucket: OneKey) -> SharedBreakers:
    """Their first opening is written, and has not come back."""
    shared = a_sharing(some)
    shared._documents = shared._mirror = bucket  # type: ignore[assignment]
    some.report(3)
    shared.note(some.transitions[0])
    writing = asyncio.create_task(shared.write())
    await until(lambda: not shared._unwritten)
    writing.cancel()
    return shared


async def test_what_came_before_our_own_write_is_overruled_by_it() -> None:
    some, bucket = SomeProviders(), OneKey()
    shared = await write_own_opening(some, bucket)
    shared.on_change({KEY: entry_of(4, state="closed")})
    assert some.state() == OPEN


def test_in_a_bucket_that_was_made_again_revisions_begin_again() -> None:
    some = SomeProviders()
    shared = a_sharing(some)
    shared.on_change({KEY: entry_of(100, state="open", until_ms=some.clock.today_ms + 5000)})
    assert some.state() == OPEN
    shared.on_change({KEY: entry_of(1, state="closed")})
    assert some.state() == CLOSED


async def test_what_has_left_the_bucket_is_forgotten(bucket: Bucket, nats_url: str) -> None:
    """Entries leave by their time to live: else every pair that ever opened would be known for
    ever.
    """
    async with an_instance(nats_url, bucket.name) as one:
        for provider in ("openai", "anthropic"):
            record = replace(RECORD, provider_id=provider)
            await bucket.write(breaker_key("acme", provider), record_bytes(record))
        await until(lambda: len(one.shared._known) == 2)
        await bucket.documents.delete(KEY, revision=one.shared._known[KEY])
        await until(lambda: list(one.shared._known) == [breaker_key("acme", "anthropic")])


async def test_what_was_written_here_is_known_until_it_comes_back_whatever_else_changes() -> None:
    some, bucket = SomeProviders(), OneKey()
    shared = await write_own_opening(some, bucket)
    other = breaker_key("acme", "anthropic")
    for revision in (2, 3):
        shared.on_change({other: BucketEntry(other, b"", revision, 0)})
    assert shared._known == {KEY: 5, other: 3}
    shared.on_change({KEY: entry_of(4, state="closed")})
    assert some.state() == OPEN
    shared.on_change({other: BucketEntry(other, b"", 6, 0)})
    assert shared._known == {other: 6}


async def test_our_own_word_is_never_news_to_us() -> None:
    """Half open is not written: an own opening, listed again, must not undo what the probes have
    shown.
    """
    some, bucket = SomeProviders(), OneKey()
    shared = await write_own_opening(some, bucket)
    some.clock.at = 10.0
    some.succeed(1)
    for revision in (9, 7):  # another bucket, as far as revisions tell
        shared.on_change({KEY: BucketEntry(KEY, bucket.written, revision, 0)})
    some.succeed(1)
    assert some.state() == CLOSED


def test_a_readers_slow_wall_clock_holds_no_provider_longer_than_the_rules_say() -> None:
    writer, reader = SomeProviders(), SomeProviders()
    opened = a_sharing(writer)._record(
        BreakerTransition("acme/openai", CLOSED, OPEN, 1, 10.0, False)
    )
    told = a_sharing(reader, behind_s=3600)._build_transition(opened)
    assert told.until == 3610
    reader.breakers.apply_remote({PAIR: told})
    shut = reader.breakers.find_not_closed("acme")
    assert shut is not None
    assert shut.breakers["openai"].block_end() == 10.0


def a_sharing(some: SomeProviders, behind_s: float = 0.0) -> SharedBreakers:
    shared = SharedBreakers(
        JetStream(Connection()),
        "b",
        "n",
        now=some.clock,
        wall_clock=lambda: some.clock.today() - behind_s,
    )
    shared.attach(some.breakers.apply_remote, some.limits.apply_remote)
    return shared
