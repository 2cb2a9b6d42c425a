"""Writes registry entries: each is checked and versioned, and a write never replaces a version that its author has not seen.

The command line and the admin service write with this class; a router reads with `services.live_extensions`.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec import Struct

from router.contracts.version_record import VersionRecord, make_record, read_record, record_bytes
from router.core import ids
from router.core.errors import Conflict, RouterError
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry
from router.routing.extensions import ExtensionEntry, parse_entry
from router.routing.extensions.parse import MAX_ENTRY_BYTES, check_size, read_document

BY_HAND = "by hand"
RECORD_BYTES = 4096  # the size that a record adds to its document
MAX_AUTHOR = 128  # characters


class ExtensionNotFound(RouterError):
    """No extension of this id is registered."""

    code = "extension_not_found"


class Registered(Struct, frozen=True):
    """A registered extension; the bucket compares `revision` at the next write."""

    entry: ExtensionEntry
    record: VersionRecord
    revision: int


class Written(Struct, frozen=True):
    """`is_new` is False when the same entry was registered already: then nothing was written."""

    extension_id: str
    version: int
    is_new: bool


class ExtensionStore:
    """The bucket of registry entries. Every method may raise BrokerUnavailable; a write Conflict, and EntryError before it writes."""

    def __init__(self, documents: DocumentBucket) -> None:
        self._documents = documents

    async def put(self, document: Mapping[str, object], *, author: str, replaces: int | None = None) -> Written:
        """Register or replace an extension. `replaces`: the version that the writer has seen, 0 for none; None: any version."""
        entry = _check_document(document)
        stored = await self._documents.get(ids.key(entry.id))
        present = _try_read(stored)
        if replaces is not None and replaces != (present.record.version if present else 0):
            raise _conflict(entry.id, present)
        if present is not None and present.entry == entry:
            return Written(entry.id, present.record.version, False)
        return await self._write(entry.id, document, author, stored)

    async def seed(self, document: Mapping[str, object], *, author: str) -> bool:
        """Write the first version. Returns False if there ever was one, so a removed extension stays removed."""
        entry = _check_document(document)
        try:
            await self._documents.put(ids.key(entry.id), record_bytes(make_record(document, version=1, author=author)), revision=0)
        except Conflict:
            return False
        return True

    async def get(self, extension_id: str) -> Registered:
        """Raises ExtensionNotFound."""
        return await self._require(extension_id)

    async def list(self) -> list[Registered]:
        """Every readable entry, sorted by id."""
        found = await self._documents.read_all()
        return [registered for key in sorted(found) if (registered := _try_read(found[key])) is not None]

    async def switch(self, extension_id: str, *, enabled: bool, author: str) -> Written:
        """Enable or disable it. Raises ExtensionNotFound."""
        present = await self._require(extension_id)
        if present.entry.enabled == enabled:
            return Written(extension_id, present.record.version, False)
        document = {**present.record.document, "enabled": enabled}
        return await self.put(document, author=author, replaces=present.record.version)

    async def delete(self, extension_id: str, *, replaces: int | None = None) -> int:
        """Delete it and return the version that was deleted. Raises ExtensionNotFound."""
        stored = await self._get_entry(extension_id)
        present = _try_read(stored)
        version = present.record.version if present else 0
        if replaces not in (None, version):
            raise _conflict(extension_id, present)
        try:
            await self._documents.delete(stored.key, revision=stored.revision)
        except Conflict:
            raise _conflict(extension_id, _try_read(await self._documents.get(stored.key))) from None
        return version

    async def _write(self, extension_id: str, document: Mapping[str, object], author: str, stored: BucketEntry | None) -> Written:
        key = ids.key(extension_id)
        record = make_record(document, version=await self._last_version(key) + 1, author=author[:MAX_AUTHOR])
        try:
            await self._documents.put(key, record_bytes(record), revision=stored.revision if stored is not None else None)
        except Conflict:
            raise _conflict(extension_id, _try_read(await self._documents.get(key))) from None
        return Written(extension_id, record.version, True)

    async def _last_version(self, key: str) -> int:
        """The newest readable version in the history: the versions of a removed entry go on, unreadable writes do not count."""
        entries = [one for one in await self._documents.history(key) if isinstance(one, BucketEntry)]
        return next((found.record.version for one in reversed(entries) if (found := _try_read(one)) is not None), 0)

    async def _get_entry(self, extension_id: str) -> BucketEntry:
        stored = await self._documents.get(ids.key(extension_id)) if ids.is_token(extension_id) else None
        if stored is None:
            raise ExtensionNotFound(f"no extension {extension_id!r} is registered")
        return stored

    async def _require(self, extension_id: str) -> Registered:
        present = _try_read(await self._get_entry(extension_id))
        if present is None:
            raise ExtensionNotFound(f"the value of {extension_id!r} is no registry entry: register it again, or remove it")
        return present


def read_registered(stored: BucketEntry) -> Registered:
    """Read a stored value: a record, or a bare entry that an operator wrote with another tool. Raises EntryError."""
    document = read_document(stored.value, MAX_ENTRY_BYTES + RECORD_BYTES)
    record = read_record(stored.value) if "document" in document else _build_manual_record(document, stored)
    return Registered(parse_entry(record.document, stored.key), record, stored.revision)


def _check_document(document: Mapping[str, object]) -> ExtensionEntry:
    entry = parse_entry(document)
    check_size(orjson.dumps(document))
    return entry


def _build_manual_record(document: Mapping[str, object], stored: BucketEntry) -> VersionRecord:
    # The revision of the bucket is higher than every version of the key, so versions that follow it still rise.
    return make_record(document, version=stored.revision, author=BY_HAND, at_s=stored.stored_ns / 1e9)


def _try_read(stored: BucketEntry | None) -> Registered | None:
    try:
        return read_registered(stored) if stored is not None else None
    except RouterError:
        return None


def _conflict(extension_id: str, present: Registered | None) -> Conflict:
    if present is None:
        return Conflict(f"{extension_id} is not registered (any more): look again, then write")
    record = present.record
    message = f"{extension_id} is at version {record.version}, by {record.author}: look at it, then write"
    return Conflict(message, present.revision, version=record.version)
