"""The documents of a bucket, read and kept equal to it in this process.

    load ── seed, list ──> every entry is read before the first request
    run  ── every change ──> small: read at once; large: in a thread, one after the other ──> install(all values)
              └ it cannot be read: the last good value of its key stays in force; a log line and readiness show it

A legal document of 256 KiB costs up to a tenth of a second of processor time. The event loop goes
on meanwhile, because no step of a parser holds the interpreter for more than a few milliseconds;
the previous version of the document serves until it is read.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct

from router.core.errors import BrokerUnavailable
from router.core.masking import shorten
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry, DeletedKey
from router.delivery.kv.mirror import BucketMirror
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import ReadinessCheck, events, logs

log = logs.logger(__name__)

T = TypeVar("T")

SMALL = 16 * 1024  # bytes; a document up to this size is read within a few milliseconds
MAX_SHOWN = 10  # documents that cannot be read, in readiness
MAX_ERROR = 512  # characters of each


class DocumentState(Struct, Generic[T], frozen=True):
    """The newest entry of a key; the last value that could be read, None if there never was one;
    why the newest cannot be.
    """

    entry: BucketEntry
    value: T | None
    error: str | None = None


class FollowedBucket(ABC, Generic[T]):
    """A subclass reads an entry and installs the values. `unreadable`: the event of the log line
    for an entry that cannot be read.

    `optional`: what the log calls a bucket without which a process starts all the same.
    `keeps_last_good`: whether an entry that cannot be read leaves the last good value in force.
    """

    optional: ClassVar[str] = ""
    keeps_last_good: ClassVar[bool] = True

    def __init__(
        self, jetstream: JetStream, bucket: str, unreadable: str, infos: SharedInfo | None = None
    ) -> None:
        self.documents = DocumentBucket(jetstream, bucket)
        self._mirror = BucketMirror(
            jetstream, bucket, self.on_change, on_replaced=self.seed, infos=infos
        )
        self._unreadable = unreadable
        self._states: dict[str, DocumentState[T]] = {}
        self._large: dict[str, BucketEntry] = {}  # to be read in the thread
        self._wake = asyncio.Event()

    @abstractmethod
    def read(self, entry: BucketEntry) -> T:
        """The value of an entry; for a large one it is called in a thread. Raises for an entry that
        is no document of this kind.
        """

    @abstractmethod
    def install(self, values: Sequence[T]) -> None:
        """All values, after each change. It must not raise."""

    async def seed(self) -> None:
        """Write what a start seeds, also into a bucket that was made anew. Raises
        BrokerUnavailable.
        """

    @property
    def check(self) -> ReadinessCheck:
        """The line in /readyz. It names documents that cannot be read, but they do not make the
        instance unready.
        """
        check = self._mirror.check
        broken = [
            f"{key}: {state.error}"
            for key, state in self._states.items()
            if state.error is not None
        ]
        if not broken:
            return check
        more = f"; and {len(broken) - MAX_SHOWN} more" if len(broken) > MAX_SHOWN else ""
        return ReadinessCheck(
            check.ok, f"{check.detail}; cannot be read: {'; '.join(broken[:MAX_SHOWN])}{more}"
        )

    async def load(self) -> None:
        """Seed, and read every entry, before the first request. Raises BrokerUnavailable, unless
        the process starts without the bucket: then readiness waits for it.
        """
        try:
            await self.seed()
            await self._mirror.load()
            await self._read_large()
            await self._restore_last_good()
        except BrokerUnavailable as exc:
            if not self.optional:
                raise
            logs.logger(type(self).__module__).error(
                events.BUCKET_UNAVAILABLE, bucket=self.optional, cause=str(exc)
            )

    async def _restore_last_good(self) -> None:
        """For keys that never had a value here, take the last good one of the history, which
        instances that started earlier still use.
        """
        if not self.keeps_last_good:
            return
        broken = [state for state in self._states.values() if state.value is None]
        for state in broken:
            for entry in reversed(await self.documents.history(state.entry.key)):
                if isinstance(entry, DeletedKey):
                    break
                # an unreadable version of any kind: the one before it is tried
                with contextlib.suppress(Exception):
                    value = await asyncio.to_thread(self.read, entry)
                    # else it was written or deleted meanwhile
                    if self._states.get(entry.key) is state:
                        self._states[entry.key] = DocumentState(state.entry, value, state.error)
                    break
        if broken:
            self._install()

    async def run(self) -> None:
        """A child of the tree: follow the bucket until cancelled."""
        reading = asyncio.create_task(self._run_reader())
        try:
            await self._mirror.run()
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Read the changed ones of all entries of the bucket, and install the values."""
        before, self._states, self._large = self._states, {}, {}
        for key, entry in entries.items():
            state = before.get(key)
            is_known = state is not None and state.entry.value == entry.value
            is_large = len(entry.value) > SMALL
            if is_large and not is_known:
                self._large[key] = entry
                self._wake.set()
            if state is not None and (is_known or is_large):
                self._states[key] = state
            elif not is_large:
                self._states[key] = self._build_state(entry, self._try_read(entry), state)
        self._install()

    async def _run_reader(self) -> None:
        while True:
            await self._read_large()  # at first what an earlier run has left
            await self._wake.wait()
            self._wake.clear()

    async def _read_large(self) -> None:
        while self._large:
            key, entry = next(iter(self._large.items()))
            document = await asyncio.to_thread(self._try_read, entry)
            if self._large.get(key) == entry:  # else it has changed again meanwhile
                del self._large[key]
                self._states[key] = self._build_state(entry, document, self._states.get(key))
                self._install()

    def _install(self) -> None:
        self.install([state.value for state in self._states.values() if state.value is not None])

    def _try_read(self, entry: BucketEntry) -> T | Exception:
        try:
            return self.read(entry)
        except Exception as exc:  # an error in one document must not stop the others
            return exc

    def _build_state(
        self, entry: BucketEntry, document: T | Exception, before: DocumentState[T] | None
    ) -> DocumentState[T]:
        if not isinstance(document, Exception):
            return DocumentState(entry, document)
        log.error(
            self._unreadable,
            key=entry.key,
            error=str(document),
            in_force="the last good version, if there was one" if self.keeps_last_good else "none",
        )
        kept = before.value if before is not None and self.keeps_last_good else None
        return DocumentState(entry, kept, shorten(str(document), MAX_ERROR))
