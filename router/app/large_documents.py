"""Documents of a watched bucket that are too large to be read on the loop: read in a thread, one after the other.

    changed ── small: read at once
            └─ large: ask ── run (beside the watching) ── in a thread ──> told, unless another one was asked for meanwhile

What was in force before serves until then. A legal document of 256 KiB costs up to a tenth of a second of processor time; in a
thread the loop goes on, for no single step of reading takes longer than a few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Generic, TypeVar

from router.buckets.entries import BucketEntry

T = TypeVar("T")

SMALL = 16 * 1024  # bytes; what is no larger is read within a few milliseconds


class LargeDocuments(Generic[T]):
    """`read` runs in a thread and may raise; `told` hears what came of it, on the loop."""

    def __init__(self, read: Callable[[BucketEntry], T], told: Callable[[BucketEntry, T | Exception], None]) -> None:
        self._read = read
        self._told = told
        self._wanted: Mapping[str, BucketEntry] = {}
        self._wake = asyncio.Event()

    def ask(self, entries: Mapping[str, BucketEntry]) -> None:
        """All that are to be read now; what was asked for before and is not among them is not read any more."""
        self._wanted = dict(entries)
        if entries:
            self._wake.set()

    async def read_all(self) -> None:
        """Returns when there is nothing left to read."""
        while self._wanted:
            key, entry = next(iter(self._wanted.items()))
            found = await asyncio.to_thread(self._caught, entry)
            if self._wanted.get(key) == entry:
                self._wanted = {other: one for other, one in self._wanted.items() if other != key}
                self._told(entry, found)

    async def run_beside(self, watching: Coroutine[None, None, None]) -> None:
        """Read whatever is asked for while `watching` runs, and end with it."""
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

    def _caught(self, entry: BucketEntry) -> T | Exception:
        try:
            return self._read(entry)
        except Exception as exc:  # whatever reading one document raises is that document's error, and no other's
            return exc
