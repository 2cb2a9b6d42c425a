"""The registry of this process: seeded from a directory, then equal to its bucket, moments after every change.

    directory ── seed ──> bucket ── BucketMirror ──> LiveExtensions ──> ExtensionRegistry       (what it never had)

What a stranger wrote changes nothing: the last good entry of that key stays, a line and readiness say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct

from router.app.extension_store import ExtensionStore, read_registered
from router.app.large_documents import SMALL, LargeDocuments
from router.buckets.documents import DocumentBucket
from router.buckets.entries import BucketEntry as Held
from router.buckets.mirror import BucketMirror
from router.delivery.api import JetStream
from router.errors import BrokerUnavailable, RouterError
from router.extensions import ExtensionEntry, ExtensionRegistry
from router.extensions.parse import read_document
from router.masking import shorten
from router.observability import ReadinessCheck, events, logs

log = logs.logger(__name__)

SEED_AUTHOR = "seed"
MAX_TOLD = 10  # entries that cannot be read, in readiness


class _Known(Struct, frozen=True):
    """What was read of one key. `entry` outlives an error: it is the last good one."""

    value: bytes
    entry: ExtensionEntry | None
    error: str | None = None


class LiveExtensions:
    """Keeps a registry equal to its bucket. `keep` is told of all that is registered: who remembers others forgets them."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        registry: ExtensionRegistry,
        keep: Callable[[Collection[str]], None],
        seed: Path | None = None,
    ) -> None:
        self.registry = registry
        self._keep = keep
        self._seed = seed
        self._store = ExtensionStore(DocumentBucket(jetstream, bucket))
        self._watched = BucketMirror(jetstream, bucket, self.changed)
        self._known: dict[str, _Known] = {}
        self._large = LargeDocuments(_read, self._was_read)

    async def load(self) -> None:
        """Before the first request is taken. A bucket that is away is no reason not to begin: readiness waits for it."""
        try:
            if self._seed is not None:
                await seed(self._store, self._seed)
            await self._watched.load()
            await self._large.read_all()
        except BrokerUnavailable as exc:
            log.error(events.BUCKET_UNAVAILABLE, bucket="extensions", cause=str(exc))

    async def run(self) -> None:
        """A child of the tree: follow the bucket for ever."""
        await self._large.run_beside(self._watched.run())

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz. One broken entry does not take the process out of service."""
        check = self._watched.check
        broken = [key for key, known in self._known.items() if known.error is not None]
        if not broken:
            return check
        more = f" and {len(broken) - MAX_TOLD} more" if len(broken) > MAX_TOLD else ""
        return ReadinessCheck(check.ok, f"{check.detail}; cannot be read: {', '.join(broken[:MAX_TOLD])}{more}")

    def changed(self, held: Mapping[str, Held]) -> None:
        """All that stands in the bucket now."""
        before, self._known = self._known, {}
        large: dict[str, Held] = {}
        for key, one in held.items():
            known = before.get(key)
            if known is not None and (known.value == one.value or len(one.value) > SMALL):
                self._known[key] = known
            if known is None or known.value != one.value:
                if len(one.value) > SMALL:
                    large[key] = one  # read in a thread; what stood there before serves meanwhile
                else:
                    self._known[key] = self._look(one, known)
        self._large.ask(large)
        self._install()

    def _was_read(self, held: Held, found: ExtensionEntry | Exception) -> None:
        self._known[held.key] = self._made(held, found, self._known.get(held.key))
        self._install()

    def _install(self) -> None:
        self.registry.replace(known.entry for known in self._known.values() if known.entry is not None)
        self._keep(self.registry.get_all())
        log.info(events.EXTENSIONS_LOADED, extensions=len(self.registry.get_all()))

    def _look(self, held: Held, known: _Known | None) -> _Known:
        try:
            return _Known(held.value, _read(held))
        except RouterError as exc:
            return self._made(held, exc, known)

    def _made(self, held: Held, found: ExtensionEntry | Exception, known: _Known | None) -> _Known:
        if not isinstance(found, Exception):
            return _Known(held.value, found)
        log.error(events.EXTENSION_BROKEN, key=held.key, error=str(found), in_force="the last good entry, if there was one")
        return _Known(held.value, known.entry if known is not None else None, shorten(str(found)))


def _read(held: Held) -> ExtensionEntry:
    """Raises RouterError: what stands there is no entry."""
    return read_registered(held).entry


async def seed(store: ExtensionStore, root: Path) -> None:
    """Register what the directory's files say and the bucket never had. A file that is wrong is told; the others count."""
    for file in sorted(root.glob("*.json")):  # noqa: ASYNC240 - before anything else runs
        try:
            await store.seed(read_document(file.read_bytes()), author=SEED_AUTHOR)
        except BrokerUnavailable:
            raise
        except (RouterError, OSError) as exc:
            log.error(events.EXTENSION_BROKEN, path=file.name, error=str(exc))
