"""The bucket of registry entries: each is checked and versioned before it is written. A router
keeps its registry equal to it.

ExtensionStore       the bucket; a router seeds it, and reads it with `extensions.store`
AuditedExtensions    the same for commands, console and admin service: each write with its event
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import orjson
from msgspec import Struct

from router.contracts.version_record import VersionRecord, make_record, read_record
from router.core import ids
from router.core.errors import BrokerUnavailable, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.kv.versioned_store import MAX_AUTHOR, RECORD_BYTES, VersionedStore
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.extensions.model import ExtensionEntry, ExtensionRegistry, parse_entry
from router.extensions.model.entry import MAX_ENTRY_BYTES, check_size, read_document
from router.operate.audit import AuditedStore, OperatorWrite
from router.operate.audit.audit_event import Values
from router.process.observability import events, logs

BY_HAND = "by hand"


class ExtensionNotFound(RouterError):
    """No extension of this id is registered."""

    code = "extension_not_found"


class RegisteredExtension(Struct, frozen=True):
    entry: ExtensionEntry
    record: VersionRecord


class WrittenExtension(Struct, frozen=True):
    """`is_new` is False when the same entry was registered already: then nothing was written."""

    extension_id: str
    version: int
    is_new: bool


class ExtensionStore(VersionedStore[RegisteredExtension]):
    """A write may raise EntryError before it writes."""

    kind, not_found = "extension", ExtensionNotFound

    def read(self, entry: BucketEntry) -> RegisteredExtension:
        return read_registered(entry)

    def key(self, *name: str) -> str:
        """Raises ExtensionNotFound for a name that can be no id."""
        if not ids.is_token(name[0]):
            raise ExtensionNotFound(f"there is no extension {name[0]!r}: this is no id")
        return super().key(*name)

    async def put(
        self, document: Mapping[str, object], *, author: str, replaces: int | None = None
    ) -> WrittenExtension:
        entry = _check_document(document)
        present = await self.find(entry.id)
        if (
            present is not None
            and present.entry == entry
            and replaces in (None, present.record.version)
        ):
            return WrittenExtension(entry.id, present.record.version, False)
        version = await self.write(
            (entry.id,), document, author=author[:MAX_AUTHOR], replaces=replaces
        )
        return WrittenExtension(entry.id, version, True)

    async def seed(self, document: Mapping[str, object], *, author: str) -> bool:
        """Write the first version. Returns False if there ever was one, so a removed extension
        stays removed.
        """
        return await self.write_first((_check_document(document).id,), document, author=author)

    async def switch(self, extension_id: str, *, enabled: bool, author: str) -> WrittenExtension:
        """Enable or disable it. Raises ExtensionNotFound."""
        present = await self.get(extension_id)
        document = (
            present.record.document
            if present.entry.enabled == enabled
            else {**present.record.document, "enabled": enabled}
        )
        return await self.put(document, author=author, replaces=present.record.version)


class AuditedExtensions(AuditedStore[ExtensionStore, RegisteredExtension]):
    """The writes of operators. An extension is every tenant's."""

    deletion = "extension remove"
    has_tenant = False

    def describe(self, document: RegisteredExtension) -> Values:
        return {**super().describe(document), "enabled": document.entry.enabled}

    async def put(
        self, document: Mapping[str, object], *, author: str, replaces: int | None = None
    ) -> WrittenExtension:
        event = await self.open_event("extension register", (parse_entry(document).id,))
        written = await self.store.put(document, author=author, replaces=replaces)
        return await self._close(event, written)

    async def switch(
        self, extension_id: str, *, enabled: bool, author: str, note: str | None = None
    ) -> WrittenExtension:
        """Enable or disable it. Raises ExtensionNotFound."""
        event = await self.open_event(name_switch(enabled=enabled), (extension_id,), note)
        written = await self.store.switch(extension_id, enabled=enabled, author=author)
        return await self._close(event, written)

    async def _close(self, event: OperatorWrite, written: WrittenExtension) -> WrittenExtension:
        if written.is_new:
            await self.close_event(event, (written.extension_id,), written.version)
        return written


def name_switch(*, enabled: bool) -> str:
    """The command that enables or disables."""
    return f"extension {'enable' if enabled else 'disable'}"


def read_registered(stored: BucketEntry) -> RegisteredExtension:
    """Read a stored value: a record, or a bare entry that an operator wrote with another tool.
    Raises EntryError.
    """
    document = read_document(stored.value, MAX_ENTRY_BYTES + RECORD_BYTES)
    record = (
        read_record(stored.value)
        if "document" in document
        else _build_manual_record(document, stored)
    )
    return RegisteredExtension(parse_entry(record.document, stored.key), record)


def _check_document(document: Mapping[str, object]) -> ExtensionEntry:
    entry = parse_entry(document)
    check_size(orjson.dumps(document))
    return entry


def _build_manual_record(document: Mapping[str, object], stored: BucketEntry) -> VersionRecord:
    # The revision of the bucket is higher than every version of the key, so versions that follow it
    # still rise.
    return make_record(
        document, version=stored.revision, author=BY_HAND, at_s=stored.stored_ns / 1e9
    )


# -- Keeps the extension registry of this process equal to its bucket; a directory may seed the
# bucket.
#
# directory ── seed ──> bucket ── FollowedBucket ──> FollowedExtensions ──> ExtensionRegistry  (what it never had)


log = logs.logger(__name__)

SEED_AUTHOR = "seed"


class FollowedExtensions(FollowedBucket[ExtensionEntry]):
    """Keeps a registry equal to its bucket. `on_install` gets all registered ids, so that other
    parts drop removed ones.
    """

    optional = "extensions"

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        registry: ExtensionRegistry,
        on_install: Callable[[Collection[str]], None],
        seed: Path | None = None,
        *,
        infos: SharedInfo | None = None,
    ) -> None:
        super().__init__(jetstream, bucket, events.EXTENSION_BROKEN, infos)
        self.registry = registry
        self._on_install = on_install
        self._seed = seed

    async def seed(self) -> None:
        """From the directory of the start, if there was one."""
        if self._seed is not None:
            await seed(ExtensionStore(self.documents), self._seed)

    def read(self, entry: BucketEntry) -> ExtensionEntry:
        """Raises RouterError for a value that is no entry."""
        return read_registered(entry).entry

    def install(self, values: Sequence[ExtensionEntry]) -> None:
        self.registry.replace(values)
        self._on_install(self.registry.get_all())
        log.info(events.EXTENSIONS_LOADED, extensions=len(self.registry.get_all()))


async def seed(store: ExtensionStore, root: Path) -> None:
    """Register the entries of the directory that the bucket never had. An illegal file is logged,
    the others are registered.
    """
    for file in sorted(root.glob("*.json")):  # noqa: ASYNC240 - before anything else runs
        try:
            await store.seed(read_document(file.read_bytes()), author=SEED_AUTHOR)
        except BrokerUnavailable:
            raise
        except (RouterError, OSError) as exc:
            log.error(events.EXTENSION_BROKEN, path=file.name, error=str(exc))
