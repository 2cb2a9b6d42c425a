"""Writes policies: each is checked and versioned, and a write never replaces a version that its author has not seen.

    put ── parse, lint ──> is the stored version the one that was seen? ──> the next version, by compare-and-set of the bucket

The command line and the admin service write with this class; a router reads with `services.live_policies`. A tenant's policies are
found only under its id. Values of the bucket that are no policy are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
from msgspec import Struct

from router.contracts.version_record import VersionRecord, make_record, read_record, record_bytes
from router.core import ids
from router.core.errors import Conflict, Poison, RouterError
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry, DeletedKey
from router.routing.policy import ParsedPolicy
from router.services.policy_check import check_author, check_ids, check_policy_in_thread

KEPT = 64  # writes of one policy in the history of the bucket, deletions included


class PolicyNotFound(RouterError):
    """No such policy, or no such version in the history."""

    code = "policy_not_found"


class Stored(Struct, frozen=True):
    """A policy in the bucket."""

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
        """Write a policy (JSON) and return its version. `replaces`: the version that the writer has seen; None: there must be none."""
        canonical = (await check_policy_in_thread(document, tenant_id, policy_id)).document
        check_author(author)
        key = ids.key(tenant_id, policy_id)
        newest = await self._documents.read_newest(key)
        present = _try_read(newest)
        if replaces != (present.version if present else None):
            raise _conflict(tenant_id, policy_id, present)
        version = present.version if present else await self._last_version(key) if newest else 0
        record = make_record(canonical, version=version + 1, author=author)
        try:
            await self._documents.put(key, record_bytes(record), revision=newest.revision if newest else 0)
        except Conflict:
            raise _conflict(tenant_id, policy_id, _try_read(await self._documents.get(key))) from None
        return record.version

    async def seed(self, tenant_id: str, policy_id: str, parsed: ParsedPolicy, *, replaces: VersionRecord | None, author: str) -> bool:
        """Write the first version (never after a deletion), or the one after `replaces`. Returns whether it was written."""
        key = ids.key(tenant_id, policy_id)
        entry = await self._documents.get(key) if replaces is not None else None
        if _try_read(entry) != replaces:
            return False
        record = make_record(parsed.document, version=replaces.version + 1 if replaces else 1, author=author)
        try:
            await self._documents.put(key, record_bytes(record), revision=entry.revision if entry else 0)
        except Conflict:
            return False
        return True

    async def get(self, tenant_id: str, policy_id: str, version: int | None = None) -> VersionRecord:
        """The current version, or an earlier one from the history. Raises PolicyNotFound."""
        if version is not None:
            return await self._get_version(tenant_id, policy_id, version)
        record = _try_read(await self._documents.get(_key(tenant_id, policy_id)))
        if record is None:
            raise PolicyNotFound(f"there is no policy {tenant_id}/{policy_id}")
        return record

    async def list(self, tenant_id: str | None = None) -> Sequence[Stored]:
        """Every policy, or one tenant's own, in the order of their names."""
        entries = await self._documents.read_all()
        found = await asyncio.to_thread(lambda: [_read_stored(entry) for entry in entries.values()])  # there may be many, and large ones
        chosen = [one for one in found if one is not None and tenant_id in (None, one.tenant_id)]
        return sorted(chosen, key=lambda one: (one.tenant_id, one.policy_id))

    async def history(self, tenant_id: str, policy_id: str) -> Sequence[Change]:
        """The last 64 writes, oldest first. Raises PolicyNotFound if the history has no write."""
        entries = await self._documents.history(_key(tenant_id, policy_id))
        changes = await asyncio.to_thread(_changes, entries)
        if not changes:
            raise PolicyNotFound(f"there is no policy {tenant_id}/{policy_id}, and none is remembered")
        return changes

    async def rollback(self, tenant_id: str, policy_id: str, to: int, *, author: str, replaces: int | None = None) -> int:
        """Write the document of version `to` again and return the new version. `replaces`: the version that was seen; None: any."""
        former = await self.get(tenant_id, policy_id, to)
        present = _try_read(await self._documents.get(_key(tenant_id, policy_id)))
        if replaces is None and present is not None:
            replaces = present.version
        return await self.put(tenant_id, policy_id, orjson.dumps(former.document), replaces=replaces, author=author)

    async def delete(self, tenant_id: str, policy_id: str, *, replaces: int | None = None) -> int:
        """Delete it and return the deleted version, 0 for a value that is no policy. `replaces` as in `rollback`. Raises PolicyNotFound."""
        key = _key(tenant_id, policy_id)
        entry = await self._documents.get(key)
        if entry is None:
            raise PolicyNotFound(f"there is no policy {tenant_id}/{policy_id}")
        present = _try_read(entry)
        version = present.version if present else 0
        if replaces not in (None, version):
            raise _conflict(tenant_id, policy_id, present)
        try:
            await self._documents.delete(key, revision=entry.revision)
        except Conflict:
            raise _conflict(tenant_id, policy_id, _try_read(await self._documents.get(key))) from None
        return version

    async def _get_version(self, tenant_id: str, policy_id: str, version: int) -> VersionRecord:
        entries = [change.record for change in await self.history(tenant_id, policy_id) if change.record is not None]
        for record in entries:
            if record.version == version:
                return record
        known = ", ".join(str(record.version) for record in entries[-8:])
        raise PolicyNotFound(f"{tenant_id}/{policy_id} has no version {version}: the last {KEPT} are kept, the newest are {known}")

    async def _last_version(self, key: str) -> int:
        """The last version before a deletion: versions go on from it."""
        entries = await self._documents.history(key)
        records = await asyncio.to_thread(lambda: [_try_read(one) for one in entries])
        return next((record.version for record in reversed(records) if record is not None), 0)


def _key(tenant_id: str, policy_id: str) -> str:
    check_ids(tenant_id, policy_id)
    return ids.key(tenant_id, policy_id)


def _changes(entries: Sequence[BucketEntry | DeletedKey]) -> list[Change]:
    read = [(one, _try_read(one)) for one in entries]
    return [Change(record, one.stored_ns) for one, record in read if isinstance(one, DeletedKey) or record is not None]


def _try_read(entry: BucketEntry | DeletedKey | None) -> VersionRecord | None:
    """None for a missing value, and for one that is no policy record."""
    if not isinstance(entry, BucketEntry):
        return None
    try:
        return read_record(entry.value)
    except Poison:
        return None


def _read_stored(entry: BucketEntry) -> Stored | None:
    parts, record = ids.parts_of(entry.key), _try_read(entry)
    return Stored(parts[0], parts[1], record) if record is not None and parts is not None and len(parts) == 2 else None


def _conflict(tenant_id: str, policy_id: str, present: VersionRecord | None) -> Conflict:
    name = f"{tenant_id}/{policy_id}"
    if present is None:
        return Conflict(f"there is no policy {name} (any more): write it without replaces")
    return Conflict(
        f"{name} is at version {present.version}, by {present.author}: look at it, then write with replaces {present.version}",
        version=present.version,
    )
