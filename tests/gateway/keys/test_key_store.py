"""Keys in their bucket: made, rotated, taken back, and followed by a gateway
(docs/how-to/gateway-keys.md).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.core.clock import now_ms
from router.core.errors import Conflict
from router.gateway.keys import store as key_store
from router.gateway.keys.model.api_key import ApiKeyError, KeyTable, MadeKey, make_key
from router.gateway.keys.store import ApiKeyNotFound, AuditedKeys, FollowedKeys, KeyStore
from router.operate.audit.audit_event import OperatorWrite
from tests.support.beside import beside
from tests.support.buckets import Bucket
from tests.support.waiting import until


class Trail:
    """An audit trail that remembers."""

    def __init__(self) -> None:
        self.writes: list[OperatorWrite] = []

    async def record(self, write: OperatorWrite) -> None:
        self.writes.append(write)

    def list_words(self) -> Sequence[tuple[str, str]]:
        return [(write.command, write.target) for write in self.writes]


def open_keys(bucket: Bucket) -> tuple[AuditedKeys, Trail]:
    trail = Trail()
    return AuditedKeys(KeyStore(bucket.documents), trail), trail


def a_key(tenant: str = "acme", **fields: Any) -> MadeKey:
    return make_key(tenant, now_ms(), **fields)


def follow(bucket: Bucket) -> tuple[FollowedKeys, KeyTable]:
    table = KeyTable()
    return FollowedKeys(bucket.jetstream, bucket.name, table), table


async def test_a_gateway_takes_a_new_key_and_refuses_a_revoked_one(
    bucket: Bucket,
) -> None:
    keys, _ = open_keys(bucket)
    followed, table = follow(bucket)
    await followed.load()
    async with beside(followed.run()):
        await until(lambda: followed.check.ok, what="it follows")
        made, other = a_key(), a_key("globex")
        for one in (made, other):
            await keys.create(one.key, author="ann")
        await until(lambda: len(table) == 2, what="the keys are in force", within_s=20)
        assert table.find(made.text, now_ms()) == made.key
        await keys.delete(made.key.key_id)
        await until(lambda: table.find(made.text, now_ms()) is None, what="revoked", within_s=20)
        assert table.find(other.text, now_ms()) == other.key


async def test_events_have_ids_and_rights_and_neither_hash_nor_secret(bucket: Bucket) -> None:
    keys, trail = open_keys(bucket)
    made = a_key(name="billing", policies=["default"])
    stored = await keys.create(made.key, author="ann")
    assert (stored.record.version, stored.record.author) == (1, "ann")
    new = a_key(replaces=made.key.key_id)
    await keys.rotate(stored, new.key, ends_ms=now_ms() + 1_000, author="bob")
    await keys.delete(made.key.key_id)
    old_id, new_id = made.key.key_id, new.key.key_id
    assert trail.list_words() == [
        ("key create", old_id),
        ("key create", new_id),
        ("key rotate", old_id),
        ("key revoke", old_id),
    ]
    assert {write.tenant_id for write in trail.writes} == {"acme"}
    assert (trail.writes[2].after or {})["replaced_by"] == new_id
    told = repr(trail.writes)
    for one in (made, new):
        assert one.key.secret_sha256 not in told
        assert one.text[16:] not in told


async def test_a_rotation_names_both_keys_and_ends_the_old_one(bucket: Bucket) -> None:
    keys, _ = open_keys(bucket)
    old, new = a_key(), a_key()
    stored = await keys.create(old.key, author="ann")
    ends = now_ms() + 3_600_000
    new_key = replace(new.key, replaces=old.key.key_id)
    await keys.rotate(stored, new_key, ends_ms=ends, author="ann")
    table = KeyTable()
    table.replace([one.key for one in await keys.store.list("acme")])
    found = [table.find(one.text, ends - 1) for one in (old, new)]
    assert [one and (one.expires_ms, one.replaces, one.replaced_by) for one in found] == [
        (ends, None, new_key.key_id),
        (None, old.key.key_id, None),
    ]
    assert table.find(old.text, ends) is None


async def test_of_two_rotations_one_holds_and_the_other_leaves_no_key(bucket: Bucket) -> None:
    keys, _ = open_keys(bucket)
    stored = await keys.create(a_key().key, author="ann")
    news = [a_key(replaces=stored.key.key_id).key for _ in range(2)]
    done = await asyncio.gather(
        *(keys.rotate(stored, new, ends_ms=now_ms(), author="ann") for new in news),
        return_exceptions=True,
    )
    assert sorted(type(one) for one in done if isinstance(one, Exception)) == [Conflict]
    left = [one.key for one in await keys.store.list()]
    old = next(one for one in left if one.key_id == stored.key.key_id)
    assert len(left) == 2
    assert old.replaced_by in {one.key_id for one in left}


async def test_a_rotation_that_has_not_seen_another_leaves_no_key(bucket: Bucket) -> None:
    keys, _ = open_keys(bucket)
    stored = await keys.create(a_key().key, author="ann")
    first, late = (a_key(replaces=stored.key.key_id).key for _ in range(2))
    await keys.rotate(stored, first, ends_ms=now_ms(), author="ann")
    with pytest.raises(Conflict):
        await keys.rotate(stored, late, ends_ms=now_ms(), author="bob")
    assert {one.key.key_id for one in await keys.store.list()} == {
        stored.key.key_id,
        first.key_id,
    }


async def test_the_key_of_a_rotation_that_was_killed_goes_with_the_next_one(
    bucket: Bucket,
) -> None:
    keys, trail = open_keys(bucket)
    stored = await keys.create(a_key().key, author="ann")
    unshown, new = (a_key(replaces=stored.key.key_id).key for _ in range(2))
    await keys.store.put(unshown, author="ann", replaces=0)
    await keys.rotate(stored, new, ends_ms=now_ms(), author="ann")
    assert ("key revoke", unshown.key_id) in trail.list_words()
    assert {one.key.key_id for one in await keys.store.list()} == {stored.key.key_id, new.key_id}


async def test_a_tenant_s_keys_have_a_bound_and_the_first_that_expired_makes_room(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_store, "MAX_OF_TENANT", 3)
    keys, _ = open_keys(bucket)
    soon = [make_key("acme", now - 5_000, expires_ms=now).key for now in (now_ms(), now_ms() - 1)]
    for key in (*soon, a_key().key):
        await keys.create(key, author="ann")
    await keys.create(a_key("globex").key, author="ann")
    for _ in soon:
        await keys.create(a_key().key, author="ann")
    left = {one.key.key_id for one in await keys.store.list("acme")}
    assert (len(left), left & {key.key_id for key in soon}) == (3, set())
    with pytest.raises(ApiKeyError, match="acme has 3 keys in force"):
        await keys.create(a_key().key, author="ann")
    monkeypatch.setattr(key_store, "MAX_KEYS", 4)
    with pytest.raises(ApiKeyError, match="4 keys of all tenants"):
        await keys.create(a_key("third").key, author="ann")


async def test_what_was_given_as_an_id_is_not_repeated(bucket: Bucket) -> None:
    keys, _ = open_keys(bucket)
    whole = a_key().text
    with pytest.raises(ApiKeyError) as refused:
        await keys.store.get(whole)
    assert whole[16:] not in str(refused.value)
    with pytest.raises(ApiKeyNotFound):
        await keys.store.get("0" * 12)


def write(document: object, version: int = 2) -> bytes:
    assert isinstance(document, dict)
    return record_bytes(make_record(document, version=version, author="ann"))


@pytest.mark.parametrize(
    "change",
    [
        {"secret_sha256": None},
        {"key_id": "1" * 12},
        {"revoked": True},  # as a later version may write it
        {"name": "x" * 20_000},
    ],
)
async def test_a_key_that_cannot_be_read_is_refused_though_it_could_before(
    bucket: Bucket, change: dict[str, object]
) -> None:
    made = a_key()
    followed, table = follow(bucket)
    document = to_builtins(made.key)
    await bucket.write(made.key.key_id, write(document, 1))
    await followed.load()
    assert table.find(made.text, now_ms()) == made.key
    await bucket.write(made.key.key_id, write({**document, **change}))
    async with beside(followed.run()):
        await until(lambda: table.find(made.text, now_ms()) is None, what="it is refused")
        await until(lambda: "cannot be read" in followed.check.detail, what="readiness tells it")
    anew, table = follow(bucket)
    await anew.load()
    assert table.find(made.text, now_ms()) is None
    assert made.key.secret_sha256 not in anew.check.detail
