"""Reads documents of a bucket that are too large for the event loop: in a thread, one after the other.

    change ── small: read at once
           └─ large: ask ── read in a thread ──> on_read, unless the key has changed again meanwhile

The previous version serves until then. A legal document of 256 KiB costs up to a tenth of a second of processor time; the event loop
goes on meanwhile, because no step of the parser holds the interpreter for more than a few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Generic, TypeVar

from router.delivery.buckets.entries import BucketEntry

T = TypeVar("T")

SMALL = 16 * 1024  # bytes; a document up to this size is read within a few milliseconds


class LargeDocuments(Generic[T]):
    """`read` runs in a thread and may raise; `on_read` gets its result or exception, on the event loop."""

    def __init__(self, read: Callable[[BucketEntry], T], on_read: Callable[[BucketEntry, T | Exception], None]) -> None:
        self._read = read
        self._on_read = on_read
        self._wanted: Mapping[str, BucketEntry] = {}
        self._wake = asyncio.Event()

    def ask(self, entries: Mapping[str, BucketEntry]) -> None:
        """Set the entries to read; entries of the last call that are not among them are dropped."""
        self._wanted = dict(entries)
        if entries:
            self._wake.set()

    async def read_all(self) -> None:
        """Read until no entry is left."""
        while self._wanted:
            key, entry = next(iter(self._wanted.items()))
            found = await asyncio.to_thread(self._try_read, entry)
            if self._wanted.get(key) == entry:
                self._wanted = {other: one for other, one in self._wanted.items() if other != key}
                self._on_read(entry, found)

    async def run_with(self, watching: Coroutine[None, None, None]) -> None:
        """Run `watching` and read the requested entries meanwhile; end with it."""
        reading = asyncio.create_task(self._run())
        try:
            await watching
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.read_all()

    def _try_read(self, entry: BucketEntry) -> T | Exception:
        try:
            return self._read(entry)
        except Exception as exc:  # an error in one document must not stop the others
            return exc
