"""What a process shares through a bucket on a real server: all of it is stored, whatever becomes of
a write.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest

from router.core.errors import BrokerUnavailable, Conflict, Poison, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.shared_bucket import SharedRecords
from router.delivery.wire.api import JetStream
from tests.support.buckets import Bucket
from tests.support.delivery import connected
from tests.support.patient_buckets import buckets_have_time  # noqa: F401 - autouse
from tests.support.supervision import run_children
from tests.support.waiting import until


class Numbers(SharedRecords[str]):
    """Numbers by name, each an entry of its own."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        super().__init__(jetstream, bucket, "node")
        self._numbers: dict[str, int] = {}
        self._changed: set[str] = set()
        self.seen: Mapping[str, int] = {}
        self.failures: list[RouterError] = []

    def set(self, name: str, number: int) -> None:
        self._numbers[name] = number
        self._changed.add(name)

    def list_changed(self, *, is_last: bool) -> Sequence[str]:
        return sorted(self._changed)

    def build_entry(self, one: str) -> tuple[str, bytes]:
        self._changed.discard(one)
        return one, b"%d" % self._numbers[one]

    def mark_changed(self, one: str) -> None:
        self._changed.add(one)

    def log_failure(self, one: str, cause: RouterError) -> None:
        self.failures.append(cause)

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        self.seen = {key: int(entry.value) for key, entry in entries.items()}


@contextlib.asynccontextmanager
async def sharing(url: str, bucket: str) -> AsyncIterator[Numbers]:
    async with connected(url) as connection:
        numbers = Numbers(JetStream(connection), bucket)
        await numbers.load()
        async with run_children(numbers.follow, numbers.write):
            yield numbers


class Puts:
    """Stands in for `DocumentBucket.put`: the first writes end as the test says, the others are
    real.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: RouterError) -> None:
        self.keys: list[str] = []
        self.put = DocumentBucket.put
        self.errors = list(errors)
        monkeypatch.setattr(
            DocumentBucket, "put", lambda *args, **options: self._put(*args, **options)
        )

    async def _put(
        self, documents: DocumentBucket, key: str, value: bytes, *, revision: int | None
    ) -> int:
        self.keys.append(key)
        if self.errors:
            raise self.errors.pop(0)
        return await self.put(documents, key, value, revision=revision)


async def read(bucket: Bucket) -> Mapping[str, bytes]:
    return {key: entry.value for key, entry in (await bucket.documents.read_all()).items()}


async def test_what_changed_is_written_and_what_changes_just_before_the_end_too(
    nats_url: str, bucket: Bucket
) -> None:
    async with sharing(nats_url, bucket.name) as one, sharing(nats_url, bucket.name) as other:
        one.set("a", 1)
        await until(lambda: other.seen == {"a": 1})
        one.set("a", 2)
        one.set("b", 3)
    assert await read(bucket) == {"a": b"2", "b": b"3"}


@pytest.mark.parametrize(
    "error",
    [Conflict("another client"), BrokerUnavailable("no answer")],
    ids=lambda error: error.code,
)
async def test_a_write_that_failed_is_tried_again_while_it_runs_and_when_it_ends(
    nats_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, error: RouterError
) -> None:
    puts = Puts(monkeypatch, error, error)
    async with sharing(nats_url, bucket.name) as one:
        one.set("a", 1)
        await until(lambda: one.seen == {"a": 1})
        puts.errors.append(error)
        one.set("a", 2)
    assert await read(bucket) == {"a": b"2"}


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "not stored"])
async def test_a_write_that_is_cut_off_costs_nothing(
    nats_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool
) -> None:
    begun, put = asyncio.Event(), DocumentBucket.put

    async def put_without_answer(
        documents: DocumentBucket, key: str, value: bytes, *, revision: int | None
    ) -> int:
        if begun.is_set() or is_stored:
            revision = await put(documents, key, value, revision=revision)
        if begun.is_set():
            return revision or 0
        begun.set()
        return await asyncio.Future()  # until it is cancelled

    monkeypatch.setattr(DocumentBucket, "put", put_without_answer)
    async with sharing(nats_url, bucket.name) as one:
        one.set("a", 1)
        await begun.wait()
        if is_stored:
            one.set("a", 2)
    assert await read(bucket) == {"a": b"2" if is_stored else b"1"}


async def test_one_that_is_never_stored_keeps_no_other_from_it(
    nats_url: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts = Puts(monkeypatch, Poison("too large"))
    async with sharing(nats_url, bucket.name) as one:
        one.set("a", 1)
        one.set("b", 2)
        await until(lambda: one.seen == {"b": 2})
        assert [type(cause) for cause in one.failures] == [Poison]
    assert puts.keys.count("a") == 1


async def test_a_bucket_that_is_missing_holds_up_no_end(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.delivery.kv.shared_bucket.LAST_WRITE_S", 3600.0)
    async with asyncio.timeout(60), sharing(nats_url, "MISSING_NUMBERS") as one:
        one.set("a", 1)
        await until(lambda: one.failures)
