"""Keeps the extension registry of this process equal to its bucket; a directory may seed the bucket.

    directory ── seed ──> bucket ── BucketMirror ──> LiveExtensions ──> ExtensionRegistry       (what it never had)

An entry that cannot be read changes nothing: the last good entry of its key stays in force, and a log line and readiness show it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct

from router.core.errors import BrokerUnavailable, RouterError
from router.core.masking import shorten
from router.delivery.api import JetStream
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry
from router.delivery.buckets.mirror import BucketMirror
from router.operations.observability import ReadinessCheck, events, logs
from router.routing.extensions import ExtensionEntry, ExtensionRegistry
from router.routing.extensions.parse import read_document
from router.services.extension_store import ExtensionStore, read_registered
from router.services.large_documents import SMALL, LargeDocuments

log = logs.logger(__name__)

SEED_AUTHOR = "seed"
MAX_TOLD = 10  # entries that cannot be read, in readiness


class _EntryState(Struct, frozen=True):
    """The state of one key. `entry` is the last good one, also after an error."""

    value: bytes
    entry: ExtensionEntry | None
    error: str | None = None


class LiveExtensions:
    """Keeps a registry equal to its bucket. `on_install` gets all registered ids, so that other parts drop removed ones."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        registry: ExtensionRegistry,
        on_install: Callable[[Collection[str]], None],
        seed: Path | None = None,
    ) -> None:
        self.registry = registry
        self._on_install = on_install
        self._seed = seed
        self._store = ExtensionStore(DocumentBucket(jetstream, bucket))
        self._mirror = BucketMirror(jetstream, bucket, self.on_change)
        self._states: dict[str, _EntryState] = {}
        self._large = LargeDocuments(_read, self._on_read)

    async def load(self) -> None:
        """Load before the first request. If the bucket is unavailable the process starts anyway, and readiness waits for it."""
        try:
            if self._seed is not None:
                await seed(self._store, self._seed)
            await self._mirror.load()
            await self._large.read_all()
        except BrokerUnavailable as exc:
            log.error(events.BUCKET_UNAVAILABLE, bucket="extensions", cause=str(exc))

    async def run(self) -> None:
        """A child of the tree: follow the bucket until cancelled."""
        await self._large.run_with(self._mirror.run())

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz. One broken entry does not take the process out of service."""
        check = self._mirror.check
        broken = [key for key, state in self._states.items() if state.error is not None]
        if not broken:
            return check
        more = f" and {len(broken) - MAX_TOLD} more" if len(broken) > MAX_TOLD else ""
        return ReadinessCheck(check.ok, f"{check.detail}; cannot be read: {', '.join(broken[:MAX_TOLD])}{more}")

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Apply the entries that the bucket holds now."""
        before, self._states = self._states, {}
        large: dict[str, BucketEntry] = {}
        for key, one in entries.items():
            state = before.get(key)
            if state is not None and (state.value == one.value or len(one.value) > SMALL):
                self._states[key] = state
            if state is None or state.value != one.value:
                if len(one.value) > SMALL:
                    large[key] = one  # read in a thread; the previous entry serves meanwhile
                else:
                    self._states[key] = self._read_small(one, state)
        self._large.ask(large)
        self._install()

    def _on_read(self, entry: BucketEntry, found: ExtensionEntry | Exception) -> None:
        self._states[entry.key] = self._build_state(entry, found, self._states.get(entry.key))
        self._install()

    def _install(self) -> None:
        self.registry.replace(state.entry for state in self._states.values() if state.entry is not None)
        self._on_install(self.registry.get_all())
        log.info(events.EXTENSIONS_LOADED, extensions=len(self.registry.get_all()))

    def _read_small(self, entry: BucketEntry, state: _EntryState | None) -> _EntryState:
        try:
            return _EntryState(entry.value, _read(entry))
        except RouterError as exc:
            return self._build_state(entry, exc, state)

    def _build_state(self, entry: BucketEntry, found: ExtensionEntry | Exception, state: _EntryState | None) -> _EntryState:
        if not isinstance(found, Exception):
            return _EntryState(entry.value, found)
        log.error(events.EXTENSION_BROKEN, key=entry.key, error=str(found), in_force="the last good entry, if there was one")
        return _EntryState(entry.value, state.entry if state is not None else None, shorten(str(found)))


def _read(entry: BucketEntry) -> ExtensionEntry:
    """Raises RouterError for a value that is no entry."""
    return read_registered(entry).entry


async def seed(store: ExtensionStore, root: Path) -> None:
    """Register the entries of the directory that the bucket never had. An illegal file is logged, the others are registered."""
    for file in sorted(root.glob("*.json")):  # noqa: ASYNC240 - before anything else runs
        try:
            await store.seed(read_document(file.read_bytes()), author=SEED_AUTHOR)
        except BrokerUnavailable:
            raise
        except (RouterError, OSError) as exc:
            log.error(events.EXTENSION_BROKEN, path=file.name, error=str(exc))
