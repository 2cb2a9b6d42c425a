"""Documents that operators write, on a real bucket: a write over a revision that its writer has not
seen is refused; history is kept.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from router.core.errors import BrokerUnavailable, Conflict, Poison
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry, DeletedKey
from router.delivery.wire.api import nanos
from tests.support.buckets import a_bucket


@pytest.fixture
async def documents(nats_url: str, prefix: str) -> AsyncIterator[DocumentBucket]:
    async with a_bucket(nats_url, prefix) as bucket:
        yield bucket.documents


async def test_a_document_is_read_as_it_was_written(documents: DocumentBucket) -> None:
    revision = await documents.put("a", b"\x00\xff{}", revision=None)
    found = await documents.get("a")
    assert found is not None
    assert (found.key, found.value, found.revision) == ("a", b"\x00\xff{}", revision)
    assert abs(found.stored_ns / 1e9 - time.time()) < 60
    assert (await documents.read_all())["a"] == found  # however it was read, nanoseconds included


async def test_what_is_not_there_is_none(documents: DocumentBucket) -> None:
    assert await documents.get("a") is None
    assert await documents.read_all() == {}
    assert await documents.history("a") == []


async def test_of_two_writers_one_wins_and_the_other_is_told(documents: DocumentBucket) -> None:
    revision = await documents.put("a", b"0", revision=None)
    said = await asyncio.gather(
        *(documents.put("a", b"%d" % n, revision=revision) for n in range(5)),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in said) == ["Conflict"] * 4 + ["int"]
    winner = next(n for n, one in enumerate(said) if isinstance(one, int))
    assert (await documents.get("a")).value == b"%d" % winner  # type: ignore[union-attr]


async def test_what_is_there_is_not_created_again(documents: DocumentBucket) -> None:
    revision = await documents.put("a", b"1", revision=None)
    with pytest.raises(Conflict) as told:
        await documents.put("a", b"2", revision=None)
    assert told.value.revision == revision


async def test_a_deleted_key_is_free_again_and_its_history_stays(documents: DocumentBucket) -> None:
    first = await documents.put("a", b"1", revision=None)
    await documents.delete("a", revision=first)
    assert await documents.get("a") is None
    assert await documents.read_all() == {}
    await documents.put("a", b"2", revision=None)
    history = await documents.history("a")
    assert [one.value if isinstance(one, BucketEntry) else type(one) for one in history] == [
        b"1",
        DeletedKey,
        b"2",
    ]


async def test_a_deletion_names_what_it_deletes(documents: DocumentBucket) -> None:
    first = await documents.put("a", b"1", revision=None)
    await documents.put("a", b"2", revision=first)
    with pytest.raises(Conflict):
        await documents.delete("a", revision=first)


async def test_the_last_64_are_kept(documents: DocumentBucket) -> None:
    revision = await documents.put("a", b"0", revision=None)
    for n in range(1, 70):
        revision = await documents.put("a", b"%d" % n, revision=revision)
    assert [one.value for one in await documents.history("a") if isinstance(one, BucketEntry)] == [
        b"%d" % n for n in range(6, 70)
    ]


async def test_one_key_s_history_is_its_own(documents: DocumentBucket) -> None:
    await documents.put("a", b"1", revision=None)
    await documents.put("a.b", b"2", revision=None)
    assert [one.key for one in await documents.history("a")] == ["a"]


async def test_many_are_listed_whole(documents: DocumentBucket) -> None:
    # of more at once the last would wait, on a busy machine, longer than a request may
    for first in range(0, 1500, 100):
        await asyncio.gather(
            *(
                documents.put(f"k-{n}", b"x" * 1000, revision=None)
                for n in range(first, first + 100)
            )
        )
    assert len(await documents.read_all()) == 1500


async def test_a_missing_bucket_is_away_and_not_empty(documents: DocumentBucket) -> None:
    missing = DocumentBucket(documents._jetstream, "NOWHERE")
    for work in (
        missing.get("a"),
        missing.put("a", b"", revision=None),
        missing.put("a", b"", revision=1),
        missing.read_all(),
        missing.history("a"),
    ):
        with pytest.raises(BrokerUnavailable):
            await work


async def test_what_is_too_large_is_no_outage(documents: DocumentBucket) -> None:
    with pytest.raises(Poison):
        await documents.put("a", b"x" * (8 * 1024 * 1024), revision=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:00.5Z", 5 * 10**8),
        ("2026-11-20T13:36:07.123456789Z", 1795181767123456789),
    ],
)
def test_nanoseconds_survive(text: str, expected: int) -> None:
    assert nanos(text) == expected
