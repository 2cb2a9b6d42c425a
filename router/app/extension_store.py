"""Registry entries as they are written: checked first, versioned, and never over somebody else's work.

The command line and the admin service write through this; a router reads through `app.live_extensions`.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec import Struct

from router import ids
from router.buckets.documents import DocumentBucket
from router.buckets.entries import BucketEntry as Held
from router.contracts.version_record import VersionRecord, make_record, read_record, record_bytes
from router.errors import Conflict, RouterError
from router.extensions import ExtensionEntry, parse_entry
from router.extensions.parse import LARGEST, check_size, read_document

BY_HAND = "by hand"
RECORD_BYTES = 4096  # what a record adds to its document
MOST_AUTHOR = 128  # characters


class ExtensionNotFound(RouterError):
    """Nobody registered it, or it was removed."""

    code = "extension_not_found"


class Registered(Struct, frozen=True):
    """What stands in the registry under an id; `revision` is the bucket's lock."""

    entry: ExtensionEntry
    record: VersionRecord
    revision: int


class Written(Struct, frozen=True):
    """`is_new` is False when the very same entry stood there already: then nothing was written."""

    extension_id: str
    version: int
    is_new: bool


class ExtensionStore:
    """The bucket of registry entries. Every method may raise BrokerUnavailable; a write Conflict, and EntryError before it writes."""

    def __init__(self, documents: DocumentBucket) -> None:
        self._documents = documents

    async def put(self, document: Mapping[str, object], *, author: str, replaces: int | None = None) -> Written:
        """Register, or register anew. `replaces`: the version that the writer has seen, 0 for none; None: whatever stands there."""
        entry = _checked(document)
        held = await self._documents.get(ids.key(entry.id))
        standing = _readable(held)
        if replaces is not None and replaces != (standing.record.version if standing else 0):
            raise _conflict(entry.id, standing)
        if standing is not None and standing.entry == entry:
            return Written(entry.id, standing.record.version, False)
        return await self._write(entry.id, document, author, held)

    async def seed(self, document: Mapping[str, object], *, author: str) -> bool:
        """Whether it was written: as the very first version, so not after it was removed on purpose either."""
        entry = _checked(document)
        try:
            await self._documents.put(ids.key(entry.id), record_bytes(make_record(document, version=1, author=author)), revision=0)
        except Conflict:
            return False
        return True

    async def get(self, extension_id: str) -> Registered:
        """Raises ExtensionNotFound."""
        return await self._standing(extension_id)

    async def list(self) -> list[Registered]:
        """Every entry that can be read, by id."""
        found = await self._documents.read_all()
        return [registered for key in sorted(found) if (registered := _readable(found[key])) is not None]

    async def switch(self, extension_id: str, *, enabled: bool, author: str) -> Written:
        """Enable or disable it. Raises ExtensionNotFound."""
        standing = await self._standing(extension_id)
        if standing.entry.enabled == enabled:
            return Written(extension_id, standing.record.version, False)
        document = {**standing.record.document, "enabled": enabled}
        return await self.put(document, author=author, replaces=standing.record.version)

    async def delete(self, extension_id: str, *, replaces: int | None = None) -> int:
        """The version that is gone. Raises ExtensionNotFound."""
        held = await self._held(extension_id)
        standing = _readable(held)
        version = standing.record.version if standing else 0
        if replaces not in (None, version):
            raise _conflict(extension_id, standing)
        try:
            await self._documents.delete(held.key, revision=held.revision)
        except Conflict:
            raise _conflict(extension_id, _readable(await self._documents.get(held.key))) from None
        return version

    async def _write(self, extension_id: str, document: Mapping[str, object], author: str, held: Held | None) -> Written:
        key = ids.key(extension_id)
        record = make_record(document, version=await self._last_version(key) + 1, author=author[:MOST_AUTHOR])
        try:
            await self._documents.put(key, record_bytes(record), revision=held.revision if held is not None else None)
        except Conflict:
            raise _conflict(extension_id, _readable(await self._documents.get(key))) from None
        return Written(extension_id, record.version, True)

    async def _last_version(self, key: str) -> int:
        """Of the bucket's history: a removed entry's count goes on, and a stranger's bytes count for nothing."""
        kept = [one for one in await self._documents.history(key) if isinstance(one, Held)]
        return next((found.record.version for one in reversed(kept) if (found := _readable(one)) is not None), 0)

    async def _held(self, extension_id: str) -> Held:
        held = await self._documents.get(ids.key(extension_id)) if ids.is_token(extension_id) else None
        if held is None:
            raise ExtensionNotFound(f"no extension {extension_id!r} is registered")
        return held

    async def _standing(self, extension_id: str) -> Registered:
        standing = _readable(await self._held(extension_id))
        if standing is None:
            raise ExtensionNotFound(f"what stands under {extension_id!r} is no registry entry; register it anew, or remove it")
        return standing


def read_registered(held: Held) -> Registered:
    """What stands under a key: a record, or a bare entry that somebody put there by hand. Raises EntryError."""
    document = read_document(held.value, LARGEST + RECORD_BYTES)
    record = read_record(held.value) if "document" in document else _by_hand(document, held)
    return Registered(parse_entry(record.document, held.key), record, held.revision)


def _checked(document: Mapping[str, object]) -> ExtensionEntry:
    entry = parse_entry(document)
    check_size(orjson.dumps(document))
    return entry


def _by_hand(document: Mapping[str, object], held: Held) -> VersionRecord:
    # The bucket's revision is above every version of the key's own, so the count that goes on from it still rises.
    return make_record(document, version=held.revision, author=BY_HAND, at_s=held.stored_ns / 1e9)


def _readable(held: Held | None) -> Registered | None:
    try:
        return read_registered(held) if held is not None else None
    except RouterError:
        return None


def _conflict(extension_id: str, standing: Registered | None) -> Conflict:
    if standing is None:
        return Conflict(f"{extension_id} is not registered (any more): look again, then write")
    record = standing.record
    message = f"{extension_id} is at version {record.version}, by {record.author}: look at it, then write"
    return Conflict(message, standing.revision, version=record.version)
