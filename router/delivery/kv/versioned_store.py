"""Documents of a bucket that carry a version and an author: a write never replaces a version that
its author has not seen.

    write ── is the stored version the one that was seen? ──> the next version, by compare-and-set of the bucket

The store of one kind of document is a subclass: it says how an entry is read, and checks a document
before it writes it. Versions go on after a deletion. A value that cannot be read is no document of
this kind: it is not listed, and any write replaces it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import ClassVar, Generic, Protocol, TypeVar

from msgspec import Struct

from router.contracts.canary import CanaryPlan
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import VersionRecord, make_record
from router.core import ids
from router.core.errors import Conflict, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry, DeletedKey

KEPT = 64  # writes of one document in the history of its bucket, deletions included
RECORD_BYTES = 4096  # the size that a record adds to its document
MAX_AUTHOR = 128  # characters


class Versioned(Protocol):
    """What `read` makes of an entry."""

    @property
    def record(self) -> VersionRecord: ...


T = TypeVar("T", bound=Versioned)


class Change(Struct, Generic[T], frozen=True):
    """One write in a document's history; `document` is None for a deletion. `stored_ns`: the
    server's time.
    """

    document: T | None
    stored_ns: int

    @property
    def stored_at(self) -> datetime:
        return datetime.fromtimestamp(self.stored_ns / 1e9, UTC)


class VersionedStore(ABC, Generic[T]):
    """One bucket. Every method may raise BrokerUnavailable, a write Conflict with the version that
    is stored now.

    `name`: the ids that make up the key. `replaces`: the version that the writer has seen, 0 for
    none; None: any version.
    """

    kind: ClassVar[str]  # for the texts of errors
    not_found: ClassVar[type[RouterError]]

    def __init__(self, documents: DocumentBucket) -> None:
        self._documents = documents

    @abstractmethod
    def read(self, entry: BucketEntry) -> T:
        """The document of an entry. Raises RouterError for any other value."""

    def key(self, *name: str) -> str:
        """The key of a document. A subclass may raise for an illegal name."""
        return ids.key(*name)

    async def find(self, *name: str) -> T | None:
        """The current version; None: there is none that can be read."""
        return self._try_read(await self._documents.get(self.key(*name)))

    async def get(self, *name: str, version: int | None = None) -> T:
        """The current version, or an earlier one from the history. Raises `not_found`."""
        if version is not None:
            return await self._get_version(name, version)
        document = self._try_read(await self._get_entry(name))
        if document is None:
            raise self.not_found(
                f"the value of {_label(name)} is no {self.kind}: write it again, or delete it"
            )
        return document

    async def list(self) -> Sequence[T]:
        """Every document, in the order of the keys."""
        entries = await self._documents.read_all()
        # many, and large ones
        documents = await asyncio.to_thread(
            lambda: [self._try_read(entries[key]) for key in sorted(entries)]
        )
        return [document for document in documents if document is not None]

    async def history(self, *name: str) -> Sequence[Change[T]]:
        """The last 64 writes, oldest first. Raises `not_found` if the history has no write."""
        changes = await self._read_history(self.key(*name))
        if not changes:
            raise self.not_found(f"there is no {self.kind} {_label(name)}, and none is remembered")
        return changes

    async def write(
        self,
        name: tuple[str, ...],
        document: Mapping[str, object],
        *,
        author: str,
        replaces: int | None,
        note: str | None = None,
        canary: CanaryPlan | None = None,
    ) -> int:
        """Write the next version of a checked document and return it."""
        key = self.key(*name)
        newest = await self._documents.read_newest(key)
        present = self._try_read(newest)
        self._check_seen(name, present, replaces)
        version = (
            present.record.version
            if present
            else await self._read_last_version(key)
            if newest
            else 0
        )
        record = make_record(document, version=version + 1, author=author, note=note, canary=canary)
        async with self._explain_conflict(name):
            await self._documents.put(
                key, record_bytes(record), revision=newest.revision if newest else 0
            )
        return record.version

    async def write_first(
        self,
        name: tuple[str, ...],
        document: Mapping[str, object],
        *,
        author: str,
        replaces: VersionRecord | None = None,
    ) -> bool:
        """Write the first version (never after a deletion), or the one after `replaces`. Returns
        whether it was written.
        """
        key = self.key(*name)
        entry = await self._documents.get(key) if replaces is not None else None
        present = self._try_read(entry)
        if (present.record if present else None) != replaces:
            return False
        record = make_record(
            document, version=replaces.version + 1 if replaces else 1, author=author
        )
        try:
            await self._documents.put(
                key, record_bytes(record), revision=entry.revision if entry else 0
            )
        except Conflict:
            return False
        return True

    async def delete(self, *name: str, replaces: int | None = None) -> int:
        """Delete it and return the deleted version, 0 for a value that cannot be read. Raises
        `not_found`.
        """
        entry = await self._get_entry(name)
        present = self._try_read(entry)
        self._check_seen(name, present, replaces)
        async with self._explain_conflict(name):
            await self._documents.delete(entry.key, revision=entry.revision)
        return present.record.version if present else 0

    async def _get_entry(self, name: tuple[str, ...]) -> BucketEntry:
        entry = await self._documents.get(self.key(*name))
        if entry is None:
            raise self.not_found(f"there is no {self.kind} {_label(name)}")
        return entry

    async def _get_version(self, name: tuple[str, ...], version: int) -> T:
        documents = [
            change.document for change in await self.history(*name) if change.document is not None
        ]
        for document in documents:
            if document.record.version == version:
                return document
        newest = ", ".join(str(document.record.version) for document in documents[-8:])
        raise self.not_found(
            f"{_label(name)} has no version {version}: the last {KEPT} are kept, the "
            f"newest are {newest}"
        )

    async def _read_last_version(self, key: str) -> int:
        """The last version before a deletion."""
        documents = [change.document for change in await self._read_history(key)]
        return next(
            (document.record.version for document in reversed(documents) if document is not None), 0
        )

    async def _read_history(self, key: str) -> Sequence[Change[T]]:
        entries = await self._documents.history(key)
        changes = await asyncio.to_thread(
            lambda: [Change(self._try_read(entry), entry.stored_ns) for entry in entries]
        )
        pairs = zip(entries, changes, strict=True)
        return [
            change
            for entry, change in pairs
            if change.document is not None or isinstance(entry, DeletedKey)
        ]

    def _try_read(self, entry: BucketEntry | DeletedKey | None) -> T | None:
        """None for a missing or deleted value, and for one that cannot be read."""
        try:
            return self.read(entry) if isinstance(entry, BucketEntry) else None
        except RouterError:
            return None

    def _check_seen(self, name: tuple[str, ...], present: T | None, replaces: int | None) -> None:
        if replaces not in (None, present.record.version if present else 0):
            raise self._conflict(name, present)

    @asynccontextmanager
    async def _explain_conflict(self, name: tuple[str, ...]) -> AsyncIterator[None]:
        try:
            yield
        except Conflict:
            raise self._conflict(name, await self.find(*name)) from None

    def _conflict(self, name: tuple[str, ...], present: T | None) -> Conflict:
        if present is None:
            return Conflict(
                f"there is no {self.kind} {_label(name)} (any more): look again, then "
                "write without replaces"
            )
        record = present.record
        text = (
            f"{_label(name)} is at version {record.version}, by {record.author}: look at it, "
            f"then write with replaces {record.version}"
        )
        return Conflict(text, version=record.version)


def _label(name: tuple[str, ...]) -> str:
    return "/".join(name)
