"""The bucket of keys: written by operators, one document for each key; and the table of a gateway
that follows it.

    bucket's key: the key's id     {key_id, tenant_id, secret_sha256, created_ms, ...}

    create    written, its audit event stored, and only then is the secret shown
    rotate    a new key with the same rights, then an end for the old one; each names the other
    revoke    the document is deleted; every gateway refuses the key within a second

A command that is killed before it shows a secret leaves a key that no client has. The next `rotate`
of the old key deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from router.contracts.version_record import VersionRecord, read_record
from router.core.errors import Conflict, Poison, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.kv.versioned_store import MAX_AUTHOR, RECORD_BYTES, VersionedStore
from router.delivery.wire.api import JetStream
from router.gateway.keys.model import api_key
from router.gateway.keys.model.api_key import MAX_KEYS, ApiKey, ApiKeyError, KeyTable, read_key
from router.operate.audit import AuditedStore
from router.operate.audit.audit_event import Values
from router.process.observability import events

MAX_OF_TENANT = 1_000  # keys
MAX_TOLD = 8  # policies of a key in an audit event; of more their number


class ApiKeyNotFound(RouterError):
    """There is no such key."""

    code = "key_not_found"


class StoredKey(Struct, frozen=True):
    """A key in the bucket."""

    key: ApiKey
    record: VersionRecord


class KeyStore(VersionedStore[StoredKey]):
    """A write may raise ApiKeyError before it writes. The name of a document: the key's id."""

    kind, not_found = "key", ApiKeyNotFound

    def read(self, entry: BucketEntry) -> StoredKey:
        return read_stored_key(entry)

    def key(self, *name: str) -> str:
        """Raises ApiKeyError, which does not repeat what was given: it may be a whole key."""
        if len(name) != 1 or api_key.KEY_ID.fullmatch(name[0]) is None:
            raise ApiKeyError(
                "a key's id is 12 digits of 0-9 a-f: the part between the two _ of the key"
            )
        return name[0]

    async def list(self, tenant_id: str | None = None) -> Sequence[StoredKey]:
        """Every key, or one tenant's, the oldest of a tenant first."""
        chosen = [
            stored for stored in await super().list() if tenant_id in (None, stored.key.tenant_id)
        ]
        return sorted(
            chosen,
            key=lambda stored: (stored.key.tenant_id, stored.key.created_ms, stored.key.key_id),
        )

    async def put(self, key: ApiKey, *, author: str, replaces: int) -> int:
        """Write the key's document and return its version."""
        return await self.write(
            (key.key_id,), to_builtins(key), author=author[:MAX_AUTHOR], replaces=replaces
        )


def open_keys(jetstream: JetStream, bucket: str) -> KeyStore:
    return KeyStore(DocumentBucket(jetstream, bucket))


def read_stored_key(entry: BucketEntry) -> StoredKey:
    """Raises Poison or ApiKeyError for a value or a name that is no key's."""
    if len(entry.value) > api_key.MAX_KEY_BYTES + RECORD_BYTES:
        raise Poison("is larger than a key")
    record = read_record(entry.value)
    return StoredKey(read_key(record.document, entry.key), record)


class AuditedKeys(AuditedStore[KeyStore, StoredKey]):
    """The writes of operators. Events name a key's id and rights, never its hash."""

    deletion = "key revoke"

    def find_tenant(self, name: tuple[str, ...], document: StoredKey | None) -> str | None:
        return document.key.tenant_id if document is not None else None

    def describe(self, document: StoredKey) -> Values:
        values = {"version": document.record.version, **api_key.list_key_values(document.key)}
        policies = document.key.policies
        return values if len(policies) <= MAX_TOLD else {**values, "policies": len(policies)}

    async def create(self, key: ApiKey, *, author: str) -> StoredKey:
        """Write a new key. Raises ApiKeyError: there is no place for another."""
        await self._make_room(key)
        await self.store.put(key, author=author, replaces=0)
        written = await self.store.get(key.key_id)
        event = self.make_event("key create", (key.key_id,), written)
        event.after = self.describe(written)
        await self.trail.record(event)
        return written

    async def rotate(self, old: StoredKey, new: ApiKey, *, ends_ms: int, author: str) -> StoredKey:
        """Write the new key, then the old one with its end. Raises Conflict: another rotation came
        first, and the new key is gone again.
        """
        written = await self.create(new, author=author)
        event = await self.open_event("key rotate", (old.key.key_id,))
        ending = replace(old.key, expires_ms=ends_ms, replaced_by=new.key_id)
        try:
            version = await self.store.put(ending, author=author, replaces=old.record.version)
        except RouterError:
            with suppress(RouterError):
                await self.delete(new.key_id)
            raise
        await self.close_event(event, (old.key.key_id,), version)
        await self._delete_unshown(ending)
        return written

    async def _delete_unshown(self, old: ApiKey) -> None:
        """A rotation that was killed, or came second, showed no secret: no client has its key."""
        for stored in await self.store.list(old.tenant_id):
            if stored.key.replaces == old.key_id and stored.key.key_id != old.replaced_by:
                # who made it may be deleting it at this moment
                with suppress(ApiKeyNotFound, Conflict):
                    await self.delete(stored.key.key_id)

    async def _make_room(self, key: ApiKey) -> None:
        """A tenant with as many keys as it may have loses the one that expired first."""
        present = await self.store.list()
        if len(present) >= MAX_KEYS:
            raise ApiKeyError(f"there are {MAX_KEYS} keys of all tenants: revoke some first")
        mine = [stored.key for stored in present if stored.key.tenant_id == key.tenant_id]
        if len(mine) < MAX_OF_TENANT:
            return
        expired = [one for one in mine if one.is_expired(key.created_ms)]
        if not expired:
            raise ApiKeyError(
                f"{key.tenant_id} has {MAX_OF_TENANT} keys in force: revoke some first"
            )
        await self.delete(min(expired, key=lambda one: one.expires_ms or 0).key_id)


# -- Keeps the keys of a gateway equal to the bucket.


class FollowedKeys(FollowedBucket[ApiKey]):
    """A key that cannot be read is refused: the version before it may have been taken back."""

    optional = "keys"
    keeps_last_good = False

    def __init__(self, jetstream: JetStream, bucket: str, table: KeyTable) -> None:
        # without shared infos, which routers alone tell one another: the watcher's heartbeats tell
        super().__init__(jetstream, bucket, events.KEY_BROKEN)
        self._table = table

    def read(self, entry: BucketEntry) -> ApiKey:
        return read_stored_key(entry).key

    def install(self, values: Sequence[ApiKey]) -> None:
        self._table.replace(values)
