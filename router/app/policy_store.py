"""Policies as people write them: checked first, versioned, and never over somebody else's work.

    put ── parse, lint ──> is it the version that was seen? ──> one more version, stored under the bucket's own lock

The command line and the admin service write through this; a router reads through `app.live_policies`. A tenant's policies are
found under its own id only. What stands in a bucket and is no policy was written by a stranger: it is passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
from msgspec import Struct

from router import ids
from router.app.policy_check import check_author, check_ids, check_policy_in_thread
from router.buckets.documents import DocumentBucket
from router.buckets.entries import BucketEntry, DeletedKey
from router.contracts.version_record import VersionRecord, make_record, read_record, record_bytes
from router.errors import Conflict, Poison, RouterError
from router.policy import ParsedPolicy

KEPT = 64  # writes of one policy that the bucket remembers, deletions included


class PolicyNotFound(RouterError):
    """There is no such policy, or no such version of it any more."""

    code = "policy_not_found"


class Stored(Struct, frozen=True):
    """A policy that stands in the bucket."""

    tenant_id: str
    policy_id: str
    record: VersionRecord


class Change(Struct, frozen=True):
    """One write in a policy's history; `record` is None for a deletion. `stored_ns`: the server's time."""

    record: VersionRecord | None
    stored_ns: int


class PolicyStore:
    """The bucket of policies. Every method may raise BrokerUnavailable; a write Conflict, and PolicyError before it writes."""

    def __init__(self, documents: DocumentBucket) -> None:
        self._documents = documents

    async def put(self, tenant_id: str, policy_id: str, document: bytes, *, replaces: int | None, author: str) -> int:
        """The new version. `document`: JSON. `replaces`: the version that the writer has seen; None: there must be none."""
        canonical = (await check_policy_in_thread(document, tenant_id, policy_id)).document
        check_author(author)
        key = ids.key(tenant_id, policy_id)
        newest = await self._documents.read_newest(key)
        standing = _readable(newest)
        if replaces != (standing.version if standing else None):
            raise _conflict(tenant_id, policy_id, standing)
        version = standing.version if standing else await self._last_version(key) if newest else 0
        record = make_record(canonical, version=version + 1, author=author)
        try:
            await self._documents.put(key, record_bytes(record), revision=newest.revision if newest else 0)
        except Conflict:
            raise _conflict(tenant_id, policy_id, _readable(await self._documents.get(key))) from None
        return record.version

    async def seed(self, tenant_id: str, policy_id: str, parsed: ParsedPolicy, *, replaces: VersionRecord | None, author: str) -> bool:
        """Whether it was written: as the very first version (not after a deletion either), or in place of this one."""
        key = ids.key(tenant_id, policy_id)
        held = await self._documents.get(key) if replaces is not None else None
        if _readable(held) != replaces:
            return False
        record = make_record(parsed.document, version=replaces.version + 1 if replaces else 1, author=author)
        try:
            await self._documents.put(key, record_bytes(record), revision=held.revision if held else 0)
        except Conflict:
            return False
        return True

    async def get(self, tenant_id: str, policy_id: str, version: int | None = None) -> VersionRecord:
        """The present version, or a former one that is still kept. Raises PolicyNotFound."""
        if version is not None:
            return await self._former(tenant_id, policy_id, version)
        record = _readable(await self._documents.get(_key(tenant_id, policy_id)))
        if record is None:
            raise PolicyNotFound(f"there is no policy {tenant_id}/{policy_id}")
        return record

    async def list(self, tenant_id: str | None = None) -> Sequence[Stored]:
        """Every policy, or one tenant's own, in the order of their names."""
        entries = await self._documents.read_all()
        found = await asyncio.to_thread(lambda: [_stored(entry) for entry in entries.values()])  # there may be many, and large ones
        chosen = [one for one in found if one is not None and tenant_id in (None, one.tenant_id)]
        return sorted(chosen, key=lambda one: (one.tenant_id, one.policy_id))

    async def history(self, tenant_id: str, policy_id: str) -> Sequence[Change]:
        """The last 64 writes, oldest first. Raises PolicyNotFound when there never was one."""
        kept = await self._documents.history(_key(tenant_id, policy_id))
        changes = await asyncio.to_thread(_changes, kept)
        if not changes:
            raise PolicyNotFound(f"there is no policy {tenant_id}/{policy_id}, and none is remembered")
        return changes

    async def rollback(self, tenant_id: str, policy_id: str, to: int, *, author: str, replaces: int | None = None) -> int:
        """The new version, which says what `to` said. `replaces`: the version that was seen; None: whichever stands there."""
        former = await self.get(tenant_id, policy_id, to)
        standing = _readable(await self._documents.get(_key(tenant_id, policy_id)))
        if replaces is None and standing is not None:
            replaces = standing.version
        return await self.put(tenant_id, policy_id, orjson.dumps(former.document), replaces=replaces, author=author)

    async def delete(self, tenant_id: str, policy_id: str, *, replaces: int | None = None) -> int:
        """The version that is gone, 0 where no policy stood. `replaces` as in `rollback`. Raises PolicyNotFound."""
        key = _key(tenant_id, policy_id)
        held = await self._documents.get(key)
        if held is None:
            raise PolicyNotFound(f"there is no policy {tenant_id}/{policy_id}")
        standing = _readable(held)
        version = standing.version if standing else 0
        if replaces not in (None, version):
            raise _conflict(tenant_id, policy_id, standing)
        try:
            await self._documents.delete(key, revision=held.revision)
        except Conflict:
            raise _conflict(tenant_id, policy_id, _readable(await self._documents.get(key))) from None
        return version

    async def _former(self, tenant_id: str, policy_id: str, version: int) -> VersionRecord:
        kept = [change.record for change in await self.history(tenant_id, policy_id) if change.record is not None]
        for record in kept:
            if record.version == version:
                return record
        known = ", ".join(str(record.version) for record in kept[-8:])
        raise PolicyNotFound(f"{tenant_id}/{policy_id} has no version {version}: the last {KEPT} are kept, the newest are {known}")

    async def _last_version(self, key: str) -> int:
        """Of what was deleted: its count goes on."""
        kept = await self._documents.history(key)
        records = await asyncio.to_thread(lambda: [_readable(one) for one in kept])
        return next((record.version for record in reversed(records) if record is not None), 0)


def _key(tenant_id: str, policy_id: str) -> str:
    check_ids(tenant_id, policy_id)
    return ids.key(tenant_id, policy_id)


def _changes(kept: Sequence[BucketEntry | DeletedKey]) -> list[Change]:
    read = [(one, _readable(one)) for one in kept]
    return [Change(record, one.stored_ns) for one, record in read if isinstance(one, DeletedKey) or record is not None]


def _readable(held: BucketEntry | DeletedKey | None) -> VersionRecord | None:
    """None for what is not there, and for what a stranger wrote."""
    if not isinstance(held, BucketEntry):
        return None
    try:
        return read_record(held.value)
    except Poison:
        return None


def _stored(held: BucketEntry) -> Stored | None:
    parts, record = ids.parts_of(held.key), _readable(held)
    return Stored(parts[0], parts[1], record) if record is not None and parts is not None and len(parts) == 2 else None


def _conflict(tenant_id: str, policy_id: str, standing: VersionRecord | None) -> Conflict:
    name = f"{tenant_id}/{policy_id}"
    if standing is None:
        return Conflict(f"there is no policy {name} (any more): write it without replaces")
    return Conflict(
        f"{name} is at version {standing.version}, by {standing.author}: look at it, then write with replaces {standing.version}",
        version=standing.version,
    )
