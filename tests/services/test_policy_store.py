"""Policies as operators write them, on a real bucket: checked, versioned, and never over a version that the writer has not seen."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from router.core.errors import BrokerUnavailable, Conflict
from router.core.ids import key
from router.routing.policy import PolicyError
from router.services.policy_store import PolicyNotFound
from tests.support.policies_at_run_time import Place, a_place, a_policy_of

ACME = ("acme", "default")


@pytest.fixture
async def store(nats_url: str, prefix: str) -> AsyncIterator[Place]:
    async with a_place(nats_url, prefix) as place:
        yield place


async def _put(store: Place, provider: str, replaces: int | None = None, author: str = "ann") -> int:
    return await store.put(*ACME, a_policy_of(provider), replaces=replaces, author=author)


async def test_every_write_is_a_version_with_its_author_and_hash(store: Place) -> None:
    assert await _put(store, "a") == 1
    assert await _put(store, "b", 1, "bob") == 2
    first, second = [change.record for change in await store.history(*ACME)]
    assert first is not None
    assert second is not None
    assert [(one.version, one.author) for one in (first, second)] == [(1, "ann"), (2, "bob")]
    assert first.hash != second.hash
    assert (await store.get(*ACME)) == second
    assert (await store.get(*ACME, 1)) == first


async def test_the_hash_is_of_what_a_document_says_and_not_of_how(store: Place) -> None:
    one = {"version": "1.0", "providers": [{"name": "a", "weight": 70}, {"name": "b", "weight": 30}]}
    other = {"weights": {"b": 30, "a": 70}, "providers": ["a", "b"], "version": "1.0"}
    for name, document in (("one", one), ("other", other)):
        await store.put("acme", name, json.dumps(document).encode(), replaces=None, author="ann")
    assert len({stored.record.hash for stored in await store.list()}) == 1


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (b'{"providers": [{"name": "a", "weight": -1}]}', "providers[0].weight"),
        (b'{"providers": [{"name": "a", "weight": 1}], "zz": 1}', "zz"),
        (b'{"providers": [', "policy"),
        (b"[" * 2000 + b"]" * 2000, "policy"),
        (b'{"metadata": "' + b"x" * (1 << 20) + b'"}', "policy"),
        (a_policy_of("a", tenant_id="other"), "tenant_id"),
        (a_policy_of("a", pre=[{"id": f"e-{n}"} for n in range(6)]), "pipeline"),  # legal to read, and refuses every request
    ],
)
async def test_a_bad_document_is_refused_with_its_path_and_nothing_changes(store: Place, document: bytes, path: str) -> None:
    await _put(store, "a")
    with pytest.raises(PolicyError) as refused:
        await store.put(*ACME, document, replaces=1, author="bob")
    assert path in [where for where, _ in refused.value.errors]
    assert len(await store.history(*ACME)) == 1


@pytest.mark.parametrize(("tenant", "name"), [("", "a"), ("..", "a"), ("a", "*"), ("a", "_shared"), ("_other", "a"), ("a b", "c")])
async def test_a_name_that_is_no_id_reaches_nothing(store: Place, tenant: str, name: str) -> None:
    put = store.put(tenant, name, a_policy_of("a"), replaces=None, author="ann")
    for work in (put, store.get(tenant, name), store.delete(tenant, name)):
        with pytest.raises(PolicyError):
            await work


@pytest.mark.parametrize("author", ["", "a\nb", "x" * 129])
async def test_an_author_is_printable(store: Place, author: str) -> None:
    with pytest.raises(PolicyError, match="author"):
        await _put(store, "a", author=author)


async def test_who_has_not_seen_the_present_version_is_told_what_it_is(store: Place) -> None:
    with pytest.raises(Conflict, match="there is no policy acme/default"):
        await _put(store, "a", 1)
    await _put(store, "a")
    await _put(store, "b", 1, "bob")
    for replaces in (None, 1, 3):
        with pytest.raises(Conflict, match="version 2, by bob"):
            await _put(store, "c", replaces)
    assert (await store.get(*ACME)).version == 2


async def test_of_two_writers_at_once_one_wins_and_the_other_is_told(store: Place) -> None:
    await _put(store, "a")
    said = await asyncio.gather(*(_put(store, f"p-{n}", 1, f"w-{n}") for n in range(5)), return_exceptions=True)
    winner = said.index(2)
    assert [str(one) for one in said if isinstance(one, Conflict)] == [
        f"acme/default is at version 2, by w-{winner}: look at it, then write with replaces 2"
    ] * 4


async def test_a_deletion_does_not_reset_the_count_and_its_history_stays(store: Place) -> None:
    await _put(store, "a")
    assert await store.delete(*ACME, replaces=1) == 1
    with pytest.raises(PolicyNotFound):
        await store.get(*ACME)
    assert await store.list() == []
    assert await _put(store, "b") == 2
    assert [change.record.version if change.record else None for change in await store.history(*ACME)] == [1, None, 2]


async def test_a_deletion_of_another_version_is_refused(store: Place) -> None:
    await _put(store, "a")
    await _put(store, "b", 1)
    with pytest.raises(Conflict, match="version 2"):
        await store.delete(*ACME, replaces=1)


async def test_rollback_writes_what_was_as_a_new_version_after_a_deletion_too(store: Place) -> None:
    await _put(store, "a")
    await _put(store, "b", 1)
    assert await store.rollback(*ACME, 1, author="bob") == 3
    await store.delete(*ACME)
    assert await store.rollback(*ACME, 2, author="bob") == 4
    documents = [(await store.get(*ACME, version)).document for version in (1, 2, 3, 4)]
    assert documents[:2] == documents[2:]


async def test_only_the_last_64_writes_are_kept_and_who_asks_for_more_is_told(store: Place) -> None:
    for version in range(1, 67):
        await _put(store, f"p-{version}", version - 1 or None)
    assert len(await store.history(*ACME)) == 64
    with pytest.raises(PolicyNotFound, match="last 64 are kept"):
        await store.rollback(*ACME, 2, author="ann")


async def test_tenants_are_listed_apart(store: Place) -> None:
    """Story 9. Names with dots are not taken for each other."""
    for tenant, name in (("a.b", "c"), ("a", "b.c"), ("_shared", "c")):
        await store.put(tenant, name, a_policy_of("x"), replaces=None, author="ann")
    assert [(one.tenant_id, one.policy_id) for one in await store.list("a")] == [("a", "b.c")]
    assert [(one.tenant_id, one.policy_id) for one in await store.list()] == [("_shared", "c"), ("a", "b.c"), ("a.b", "c")]
    with pytest.raises(PolicyNotFound):
        await store.history("a", "c")


async def test_what_a_stranger_wrote_is_no_policy_and_can_be_deleted(store: Place) -> None:
    await store.bucket.write(key(*ACME), b'{"providers": []}')
    await store.bucket.write("what.ever.this.is", b"x")
    assert await store.list() == []
    with pytest.raises(PolicyNotFound):
        await store.get(*ACME)
    assert await store.delete(*ACME) == 0
    assert await _put(store, "a") == 1


async def test_a_bucket_that_is_away_is_not_an_empty_one(store: Place) -> None:
    await store.bucket.unmake()
    for work in (store.list(), store.get(*ACME), _put(store, "a"), store.history(*ACME), store.delete(*ACME)):
        with pytest.raises(BrokerUnavailable):
            await work
