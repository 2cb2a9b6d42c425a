"""Keeps the extension registry of this process equal to its bucket; a directory may seed the
bucket.

directory ── seed ──> bucket ── FollowedBucket ──> FollowedExtensions ──> ExtensionRegistry       (what it never had)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from router.core.errors import BrokerUnavailable, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.extensions.model import ExtensionEntry, ExtensionRegistry
from router.extensions.model.parse import read_document
from router.extensions.store import ExtensionStore, read_registered
from router.process.observability import events, logs

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
