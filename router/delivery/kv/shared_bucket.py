"""A bucket through which instances share what they know: this process follows it, and writes its
own entries.

    SharedBucket     the mirror of the bucket; the keys of this process end with its `life`
    SharedRecords    a SharedBucket in which each process writes keys of its own, so that no two
                     write the same one

    every SHARE_S ── what has changed ──> put ──> stored
                                           └ a conflict, or no answer: it counts as changed again, and the next round writes it
    cancelled ── the same, until nothing is left or LAST_WRITE_S are over

While the bucket is unavailable each instance goes on with what it knows itself.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from router.core.errors import BrokerUnavailable, Conflict, Poison, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.mirror import BucketMirror, skip_seeding
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import LogRateLimit, logs

T = TypeVar("T")
R = TypeVar("R")

SHARE_S = 0.25  # between two rounds
LAST_WRITE_S = 2.0  # when the router stops
LAST_PAUSE_S = 0.05  # between two rounds then
MAX_KEYS = 20_000  # whose revision is known


class SharedBucket(ABC):
    """`follow`, and the `write` of a subclass, are children of the tree."""

    def __init__(
        self, jetstream: JetStream, bucket: str, node_id: str, infos: SharedInfo | None = None
    ) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._mirror = BucketMirror(
            jetstream, bucket, self.on_change, on_replaced=skip_seeding, infos=infos
        )
        self._node_id = node_id
        self._life = uuid.uuid4().hex
        self._log = logs.logger(type(self).__module__)
        self._lines = LogRateLimit(every_s=60.0)

    @abstractmethod
    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Read the entries that are new; called after each change with all of them. It must not
        raise.
        """

    async def load(self) -> None:
        """Load once, before the first decision. If the bucket is unavailable the process starts
        anyway.
        """
        with suppress(BrokerUnavailable):
            await self._mirror.load()

    async def follow(self) -> None:
        """A child of the tree: follow the bucket until cancelled."""
        await self._mirror.run()

    def try_read(
        self, entry: BucketEntry, read: Callable[[str, bytes], R], unreadable: str
    ) -> R | None:
        """The record of an entry; None for one that no router wrote, which `unreadable` tells in
        the log.
        """
        try:
            return read(entry.key, entry.value)
        except Poison as exc:
            if self._lines.allow(entry.key):
                self._log.error(unreadable, key=entry.key, error=str(exc))
            return None


class SharedRecords(SharedBucket, Generic[T]):
    """A subclass says what has changed, and builds the entry of each `T`."""

    def __init__(
        self, jetstream: JetStream, bucket: str, node_id: str, infos: SharedInfo | None = None
    ) -> None:
        super().__init__(jetstream, bucket, node_id, infos)
        self._revisions: dict[str, int] = {}  # of this process' own keys

    @abstractmethod
    def list_changed(self, *, is_last: bool) -> Sequence[T]:
        """What one round writes. `is_last`: the router stops, so what would wait for a later round
        is written too.
        """

    @abstractmethod
    def build_entry(self, item: T) -> tuple[str, bytes] | None:
        """Its key and value. It has not changed from now on; what comes during the write is a
        change. None: there is nothing to write.
        """

    @abstractmethod
    def mark_changed(self, item: T) -> None:
        """It was not stored, or this is not known."""

    @abstractmethod
    def log_failure(self, item: T, cause: RouterError) -> None:
        """Once a minute at most."""

    async def write(self) -> None:
        """A child of the tree: write what has changed until cancelled, and then the rest: the
        consumers have stopped before it.
        """
        try:
            while True:
                await asyncio.sleep(SHARE_S)
                with suppress(RouterError):  # the next round tries again
                    await self._write_changed(self.list_changed(is_last=False))
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WRITE_S):
                    await self._write_rest()

    async def _write_rest(self) -> None:
        """Write until nothing is left: a write that was cut off may be stored, and the next one
        meets a conflict then.
        """
        while changed := self.list_changed(is_last=True):
            try:
                is_stored = await self._write_changed(changed)
            except RouterError:
                if not self._mirror.check.ok:
                    return  # it is unavailable for longer than this write
                is_stored = False
            if not is_stored:
                await asyncio.sleep(LAST_PAUSE_S)

    async def _write_changed(self, changed: Sequence[T]) -> bool:
        """Whether all were stored. Raises BrokerUnavailable, StorageFull at the first one: the
        bucket takes the others neither.
        """
        is_stored = True
        for item in changed:
            try:
                await self._write_one(item)
            except (Conflict, Poison):
                is_stored = False
        return is_stored

    async def _write_one(self, item: T) -> None:
        """Raises BrokerUnavailable, StorageFull, Conflict, Poison (too large)."""
        entry = self.build_entry(item)
        if entry is None:
            return
        try:
            await self._put(*entry)
        except Poison as exc:  # these bytes are never stored: the next change is another try
            self._log_failure(item, exc)
            raise
        except BaseException as exc:  # also a cancellation: whether it is stored is not known
            self.mark_changed(item)
            if isinstance(exc, RouterError) and not isinstance(exc, Conflict):
                self._log_failure(item, exc)
            raise

    async def _put(self, key: str, value: bytes) -> None:
        """Replace this process' entry."""
        if len(self._revisions) >= MAX_KEYS and key not in self._revisions:
            self._revisions.clear()
        try:
            self._revisions[key] = await self._documents.put(
                key, value, revision=self._revisions.get(key)
            )
        except Conflict:
            # the bucket was made again, the entry deleted, or an answer lost: the next write knows
            # its revision
            newest = await self._documents.read_newest(key)
            self._revisions[key] = newest.revision if newest is not None else 0
            raise

    def _log_failure(self, item: T, cause: RouterError) -> None:
        if self._lines.allow("write"):
            self.log_failure(item, cause)
