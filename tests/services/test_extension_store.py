"""Registry entries as operators write them, on a real bucket: checked, versioned, and never over a version that the writer has not seen."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

import orjson
import pytest

from router.core.errors import BrokerUnavailable, Conflict
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry, DeletedKey
from router.routing.extensions import EntryError
from router.routing.extensions.parse import LARGEST
from router.services.extension_store import ExtensionNotFound, ExtensionStore, Written
from tests.support.buckets import Bucket, a_bucket
from tests.support.registry import a_version, an_entry

NUMBERS = itertools.count(1)  # a test's prefix is cut short where it has parameters


@pytest.fixture
async def bucket(nats_url: str, prefix: str) -> AsyncIterator[Bucket]:
    async with a_bucket(nats_url, f"{prefix}_{next(NUMBERS)}") as bucket:
        yield bucket


@pytest.fixture
def store(bucket: Bucket) -> ExtensionStore:
    return ExtensionStore(bucket.documents)


async def test_every_change_is_a_version_with_its_author(store: ExtensionStore) -> None:
    assert await store.put(an_entry(), author="ann") == Written("guard", 1, True)
    assert await store.put(an_entry(retry=1), author="bob") == Written("guard", 2, True)
    standing = await store.get("guard")
    assert (standing.record.version, standing.record.author, standing.entry.retry) == (2, "bob", 1)
    assert standing.record.document == an_entry(retry=1)


async def test_the_same_entry_again_changes_nothing(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    assert await store.put(an_entry(timeout_ms=1500), author="bob") == Written("guard", 1, False)


async def test_a_wrong_entry_is_refused_and_the_old_one_stands(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    with pytest.raises(EntryError) as refused:
        await store.put(an_entry(retry=9), author="bob")
    assert [path for path, _ in refused.value.errors] == ["retry"]
    assert (await store.get("guard")).record.version == 1


async def test_the_largest_entry_that_can_be_written_can_be_read(store: ExtensionStore) -> None:
    versions = [a_version(f"v{n}", rules={"tenant_id": [f"{t:03}-" + "x" * 50 for t in range(62)]}) for n in range(64)]
    whole = an_entry(versions=versions, metadata={"x": ""})
    whole["metadata"]["x"] = "y" * (LARGEST - len(orjson.dumps(whole)))
    await store.put(whole, author="\x01" * 5000)
    assert len((await store.get("guard")).entry.versions) == 64
    whole["metadata"]["x"] += "y"
    with pytest.raises(EntryError, match="entry: is larger"):
        await store.put(whole, author="ann")


async def test_who_was_overtaken_between_look_and_write_is_told_and_overwrites_nothing(bucket: Bucket, store: ExtensionStore) -> None:
    class Overtaken(DocumentBucket):
        async def history(self, key: str) -> list[BucketEntry | DeletedKey]:
            await store.put(an_entry(retry=2), author="bob")
            return await super().history(key)

    await store.put(an_entry(), author="ann")
    with pytest.raises(Conflict, match="guard is at version 2, by bob"):
        await ExtensionStore(Overtaken(bucket.jetstream, bucket.name)).put(an_entry(retry=1), author="cat")
    assert (await store.get("guard")).entry.retry == 2


async def test_of_two_writers_at_once_one_wins_and_the_other_is_told(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    ended = await asyncio.gather(*(store.put(an_entry(retry=n), author=f"writer-{n}") for n in (1, 2)), return_exceptions=True)
    (lost,) = [one for one in ended if isinstance(one, Conflict)]
    (won,) = [one for one in ended if isinstance(one, Written)]
    standing = await store.get("guard")
    assert won.version == standing.record.version == 2
    assert f"is at version 2, by {standing.record.author}" in str(lost)


@pytest.mark.parametrize(("replaces", "is_told"), [(1, False), (0, True), (2, True)])
async def test_who_names_another_version_than_the_standing_one_is_told(store: ExtensionStore, replaces: int, is_told: bool) -> None:
    await store.put(an_entry(), author="ann")
    if not is_told:
        assert (await store.put(an_entry(retry=1), author="bob", replaces=replaces)).version == 2
        return
    with pytest.raises(Conflict) as told:
        await store.put(an_entry(retry=1), author="bob", replaces=replaces)
    assert told.value.version == 1


async def test_an_entry_is_switched_off_and_on(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    assert await store.switch("guard", enabled=False, author="bob") == Written("guard", 2, True)
    assert not (await store.get("guard")).entry.enabled
    assert await store.switch("guard", enabled=False, author="bob") == Written("guard", 2, False)
    assert await store.switch("guard", enabled=True, author="bob") == Written("guard", 3, True)


async def test_what_is_removed_is_gone_and_its_versions_go_on(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    assert await store.delete("guard") == 1
    with pytest.raises(ExtensionNotFound):
        await store.get("guard")
    assert await store.list() == []
    assert await store.put(an_entry(), author="ann", replaces=0) == Written("guard", 2, True)


async def test_entries_are_listed_by_id_and_strangers_are_not(store: ExtensionStore, bucket: Bucket) -> None:
    for extension_id in ("b", "a"):
        await store.put(an_entry(extension_id), author="ann")
    await bucket.write("rubbish", b"{")
    assert [one.entry.id for one in await store.list()] == ["a", "b"]


async def test_a_bare_entry_put_in_by_hand_has_a_version_and_the_next_one_is_above_it(store: ExtensionStore, bucket: Bucket) -> None:
    await store.put(an_entry(), author="ann")
    await bucket.write("guard", json.dumps(an_entry(retry=1)).encode())
    standing = await store.get("guard")
    assert (standing.entry.retry, standing.record.author, standing.record.version) == (1, "by hand", 2)
    assert (await store.put(an_entry(), author="bob", replaces=2)).version == 3


async def test_a_strangers_bytes_can_be_written_over_and_removed(store: ExtensionStore, bucket: Bucket) -> None:
    await store.put(an_entry(), author="ann")
    await bucket.write("guard", b"rubbish")
    with pytest.raises(ExtensionNotFound, match="is no registry entry"):
        await store.get("guard")
    assert await store.put(an_entry(), author="bob") == Written("guard", 2, True)
    await bucket.write("guard", b"rubbish")
    assert await store.delete("guard") == 0


@pytest.mark.parametrize("extension_id", ["nobody", "", "a.b", "*", ">", "x" * 65])
async def test_who_is_not_registered_is_not_found_whatever_the_name(store: ExtensionStore, extension_id: str) -> None:
    for ask in (store.get(extension_id), store.delete(extension_id), store.switch(extension_id, enabled=True, author="ann")):
        with pytest.raises(ExtensionNotFound):
            await ask


async def test_a_bucket_that_is_not_there_is_away(nats_url: str, prefix: str) -> None:
    async with a_bucket(nats_url, prefix) as bucket:
        await bucket.unmake()
        with pytest.raises(BrokerUnavailable):
            await ExtensionStore(bucket.documents).put(an_entry(), author="ann")
