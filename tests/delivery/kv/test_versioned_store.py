"""Any versioned document on a real bucket: a write over a version that its writer has not seen is
refused, and versions go on.
"""

import asyncio

import pytest
from msgspec import Struct

from router.contracts.version_record import VersionRecord, read_record
from router.core.errors import BrokerUnavailable, Conflict, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.versioned_store import VersionedStore
from tests.support.buckets import Bucket

NAME = ("acme", "one")
LABEL = "acme/one"


class NoteNotFound(RouterError):
    """There is no such note."""


class Note(Struct, frozen=True):
    """The smallest document."""

    record: VersionRecord


class Notes(VersionedStore[Note]):
    """A store of notes."""

    kind, not_found = "note", NoteNotFound

    def read(self, entry: BucketEntry) -> Note:
        return Note(read_record(entry.value))

    async def put(self, text: str, replaces: int | None = None, author: str = "ann") -> int:
        return await self.write(NAME, {"text": text}, author=author, replaces=replaces)

    async def texts(self) -> list[object]:
        changes = await self.history(*NAME)
        return [
            change.document.record.document["text"] if change.document else None
            for change in changes
        ]


@pytest.fixture
def notes(bucket: Bucket) -> Notes:
    return Notes(bucket.documents)


async def test_each_write_is_the_next_version_with_its_author(notes: Notes) -> None:
    assert await notes.find(*NAME) is None
    assert [await notes.put("a", 0), await notes.put("b", 1, "bob")] == [1, 2]
    newest = (await notes.get(*NAME)).record
    assert (newest.version, newest.author, newest.document) == (2, "bob", {"text": "b"})
    assert (await notes.get(*NAME, version=1)).record.document == {"text": "a"}


@pytest.mark.parametrize("replaces", [0, 1, 3])
async def test_a_write_that_has_not_seen_the_stored_version_is_refused_and_learns_it(
    notes: Notes, replaces: int
) -> None:
    await notes.put("a")
    await notes.put("b", author="bob")
    for work in (notes.put("c", replaces), notes.delete(*NAME, replaces=replaces)):
        with pytest.raises(
            Conflict,
            match=f"{LABEL} is at version 2, by bob: look at it, then write with replaces 2",
        ) as refused:
            await work
        assert refused.value.version == 2
    assert await notes.texts() == ["a", "b"]


async def test_a_write_that_has_seen_a_document_which_is_gone_is_refused(notes: Notes) -> None:
    with pytest.raises(Conflict, match=f"there is no note {LABEL}") as refused:
        await notes.put("a", 1)
    assert refused.value.version is None


async def test_a_write_that_names_no_version_replaces_any(notes: Notes) -> None:
    assert [await notes.put("a"), await notes.put("b"), await notes.delete(*NAME)] == [1, 2, 2]


async def test_of_many_writers_at_once_one_wins_and_the_others_learn_which(notes: Notes) -> None:
    await notes.put("a")
    results = await asyncio.gather(
        *(notes.put("b", 1, f"writer-{n}") for n in range(5)), return_exceptions=True
    )
    winner = results.index(2)
    conflicts = [str(one) for one in results if isinstance(one, Conflict)]
    assert (
        conflicts
        == [f"{LABEL} is at version 2, by writer-{winner}: look at it, then write with replaces 2"]
        * 4
    )


async def test_a_writer_that_another_one_overtakes_between_read_and_write_changes_nothing(
    bucket: Bucket, notes: Notes
) -> None:
    class Overtaken(DocumentBucket):
        async def put(self, key: str, value: bytes, *, revision: int | None) -> int:
            await notes.put("b", author="bob")
            return await super().put(key, value, revision=revision)

    await notes.put("a")
    with pytest.raises(Conflict, match=f"{LABEL} is at version 2, by bob"):
        await Notes(Overtaken(bucket.jetstream, bucket.name)).put("c")
    assert await notes.texts() == ["a", "b"]


async def test_versions_go_on_after_a_deletion_and_the_history_stays(notes: Notes) -> None:
    await notes.put("a")
    assert await notes.delete(*NAME, replaces=1) == 1
    assert (await notes.find(*NAME), list(await notes.list())) == (None, [])
    for work in (notes.get(*NAME), notes.delete(*NAME)):
        with pytest.raises(NoteNotFound, match=f"there is no note {LABEL}"):
            await work
    assert await notes.put("b", 0) == 2
    assert await notes.texts() == ["a", None, "b"]


async def test_a_first_version_is_written_once_and_never_after_a_deletion(notes: Notes) -> None:
    seeds = await asyncio.gather(
        *(notes.write_first(NAME, {"text": "a"}, author="seed") for _ in range(4))
    )
    assert sorted(seeds) == [False, False, False, True]
    await notes.delete(*NAME)
    assert not await notes.write_first(NAME, {"text": "a"}, author="seed")


async def test_a_seed_replaces_the_record_that_it_has_seen_and_no_other(notes: Notes) -> None:
    await notes.put("a")
    seen = (await notes.get(*NAME)).record
    assert await notes.write_first(NAME, {"text": "b"}, author="seed", replaces=seen)
    assert not await notes.write_first(NAME, {"text": "c"}, author="seed", replaces=seen)
    assert await notes.texts() == ["a", "b"]


async def test_documents_are_listed_by_their_keys_and_values_that_cannot_be_read_are_not(
    notes: Notes, bucket: Bucket
) -> None:
    for name in ("b", "a"):
        await notes.write((name,), {"text": name}, author="ann", replaces=0)
    await bucket.write("c", b"rubbish")
    assert [note.record.document["text"] for note in await notes.list()] == ["a", "b"]


async def test_a_value_that_cannot_be_read_is_version_0_and_is_replaced_or_deleted(
    notes: Notes, bucket: Bucket
) -> None:
    await notes.put("a")
    for number in (1, 2):
        await bucket.write(notes.key(*NAME), b"rubbish")
        with pytest.raises(NoteNotFound, match="is no note"):
            await notes.get(*NAME)
        assert await notes.put("b", 0) == number + 1
    await bucket.write(notes.key(*NAME), b"rubbish")
    assert await notes.delete(*NAME, replaces=0) == 0


async def test_a_version_that_the_history_no_longer_holds_is_not_found(notes: Notes) -> None:
    for number in range(66):
        await notes.put(f"{number}")
    assert len(await notes.history(*NAME)) == 64
    with pytest.raises(
        NoteNotFound, match=r"has no version 2: the last 64 are kept, the newest are 59, .* 66"
    ):
        await notes.get(*NAME, version=2)


async def test_a_document_that_never_was_has_no_history(notes: Notes) -> None:
    with pytest.raises(NoteNotFound, match="none is remembered"):
        await notes.history(*NAME)


async def test_a_bucket_that_is_missing_is_unavailable_and_not_empty(
    notes: Notes, bucket: Bucket
) -> None:
    await bucket.unmake()
    first = notes.write_first(NAME, {}, author="seed")
    for work in (
        notes.list(),
        notes.get(*NAME),
        notes.put("a"),
        first,
        notes.history(*NAME),
        notes.delete(*NAME),
    ):
        with pytest.raises(BrokerUnavailable):
            await work
