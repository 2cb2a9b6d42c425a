"""Registry entries as operators write them, on a real bucket: checked, versioned, and never over a
version that the writer has not seen.
"""

import json

import orjson
import pytest

from router.core.errors import Conflict
from router.extensions.model import EntryError
from router.extensions.model.entry import MAX_ENTRY_BYTES
from router.extensions.store import ExtensionNotFound, ExtensionStore, WrittenExtension
from tests.support.buckets import Bucket
from tests.support.registry import a_version, an_entry


@pytest.fixture
def store(bucket: Bucket) -> ExtensionStore:
    return ExtensionStore(bucket.documents)


async def test_every_change_is_a_version_with_its_author(store: ExtensionStore) -> None:
    assert await store.put(an_entry(), author="ann") == WrittenExtension("guard", 1, True)
    assert await store.put(an_entry(retry=1), author="bob") == WrittenExtension("guard", 2, True)
    standing = await store.get("guard")
    assert (standing.record.version, standing.record.author, standing.entry.retry) == (2, "bob", 1)
    assert standing.record.document == an_entry(retry=1)


async def test_the_same_entry_again_changes_nothing(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    assert await store.put(an_entry(timeout_ms=1500), author="bob") == WrittenExtension(
        "guard", 1, False
    )


async def test_a_wrong_entry_is_refused_and_the_old_one_stands(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    with pytest.raises(EntryError) as refused:
        await store.put(an_entry(retry=9), author="bob")
    assert [path for path, _ in refused.value.errors] == ["retry"]
    assert (await store.get("guard")).record.version == 1


async def test_the_largest_entry_that_can_be_written_can_be_read(store: ExtensionStore) -> None:
    versions = [
        a_version(f"v{n}", rules={"tenant_id": [f"{t:03}-" + "x" * 50 for t in range(62)]})
        for n in range(64)
    ]
    whole = an_entry(versions=versions, metadata={"x": ""})
    whole["metadata"]["x"] = "y" * (MAX_ENTRY_BYTES - len(orjson.dumps(whole)))
    await store.put(whole, author="\x01" * 5000)
    assert len((await store.get("guard")).entry.versions) == 64
    whole["metadata"]["x"] += "y"
    with pytest.raises(EntryError, match="entry: is larger"):
        await store.put(whole, author="ann")


@pytest.mark.parametrize(("replaces", "is_told"), [(1, False), (0, True), (2, True)])
async def test_who_names_another_version_than_the_standing_one_is_told(
    store: ExtensionStore, replaces: int, is_told: bool
) -> None:
    await store.put(an_entry(), author="ann")
    if not is_told:
        assert (await store.put(an_entry(retry=1), author="bob", replaces=replaces)).version == 2
        return
    with pytest.raises(Conflict) as told:
        await store.put(an_entry(retry=1), author="bob", replaces=replaces)
    assert told.value.version == 1


async def test_an_entry_is_switched_off_and_on(store: ExtensionStore) -> None:
    await store.put(an_entry(), author="ann")
    assert await store.switch("guard", enabled=False, author="bob") == WrittenExtension(
        "guard", 2, True
    )
    assert not (await store.get("guard")).entry.enabled
    assert await store.switch("guard", enabled=False, author="bob") == WrittenExtension(
        "guard", 2, False
    )
    assert await store.switch("guard", enabled=True, author="bob") == WrittenExtension(
        "guard", 3, True
    )


async def test_a_bare_entry_put_in_by_hand_has_a_version_and_the_next_one_is_above_it(
    store: ExtensionStore, bucket: Bucket
) -> None:
    await store.put(an_entry(), author="ann")
    await bucket.write("guard", json.dumps(an_entry(retry=1)).encode())
    standing = await store.get("guard")
    assert (standing.entry.retry, standing.record.author, standing.record.version) == (
        1,
        "by hand",
        2,
    )
    assert (await store.put(an_entry(), author="bob", replaces=2)).version == 3


@pytest.mark.parametrize("extension_id", ["unknown", "", "a.b", "*", ">", "x" * 65])
async def test_who_is_not_registered_is_not_found_whatever_the_name(
    store: ExtensionStore, extension_id: str
) -> None:
    for ask in (
        store.get(extension_id),
        store.delete(extension_id),
        store.switch(extension_id, enabled=True, author="ann"),
    ):
        with pytest.raises(ExtensionNotFound):
            await ask
