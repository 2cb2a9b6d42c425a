"""Everything queued since the last call as one batch (group commit): a commit costs as much for
fifty items as for one.

    Coalescer     add … add ──> take ──> [many]
    GroupCommit   add ──> Deferred; run: all that wait ──> commit ──> each Deferred resolves with its own result

What is added while one batch is worked on is the next batch. So under load a batch grows until what
it costs as a whole (an fsync, a round trip) no longer counts, and an item that comes alone does not
wait. Nothing here costs a task or a future for each item.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from router.core.deferred import Deferred

T = TypeVar("T")
R = TypeVar("R")

MAX_BATCH = 1024


class Coalescer(Generic[T]):
    """The queue, for one event loop and one taker."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._has_items = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        if not self._items:
            self._has_items.set()
        self._items.append(item)

    def take_all(self) -> list[T]:
        """Return and remove all items, also none."""
        return self.take_at_most(len(self._items))

    def take_at_most(self, most: int) -> list[T]:
        """Return and remove so many of the oldest items, or fewer, also none."""
        if most < len(self._items):
            return [self._items.popleft() for _ in range(most)]
        taken = list(self._items)
        self._items.clear()
        self._has_items.clear()
        return taken

    async def take(self, most: int = MAX_BATCH, linger_s: float = 0.0) -> list[T]:
        """Wait for at least one item; return at most so many, oldest first. `linger_s`: how long to
        wait for more after the first.
        """
        await self._has_items.wait()
        if linger_s:
            await asyncio.sleep(linger_s)
        return self.take_at_most(most)


class GroupCommit(Generic[T, R]):
    """`commit` gets the items of a batch, and returns a result for each, or the exception in its
    place, in their order.

    `most`: items in one batch. `linger_s`: seconds that `run` waits for more items after the first.
    What `commit` raises cancels its batch and ends the run, which cancels all that wait.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[T]], Awaitable[Sequence[R | BaseException]]],
        most: int = MAX_BATCH,
        linger_s: float = 0.0,
    ) -> None:
        self._commit = commit
        self._most = most
        self._linger_s = linger_s
        self._queue: Coalescer[tuple[T, Deferred[R]]] = Coalescer()
        self._is_over = False

    def add(self, item: T) -> Deferred[R]:
        """The item's result. It is cancelled at once after the end of a run."""
        result: Deferred[R] = Deferred()
        if self._is_over:
            result.cancel()
        else:
            self._queue.add((item, result))
        return result

    async def run(self) -> None:
        """A supervised child: until cancelled, or until `commit` raises."""
        self._is_over = False
        try:
            while True:
                await self._work(await self._queue.take(self._most, self._linger_s))
        finally:
            self._is_over = True
            _cancel(self._queue.take_all())

    async def run_until_empty(self) -> None:
        """For a caller that starts a task when it adds the first item."""
        while self._queue:
            await self._work(self._queue.take_at_most(self._most))

    async def _work(self, batch: Iterable[tuple[T, Deferred[R]]]) -> None:
        # a drain may have cancelled some
        wanted = [(item, result) for item, result in batch if not result.is_resolved]
        try:
            results = await self._commit([item for item, _ in wanted])
            for (_, deferred), result in zip(wanted, results, strict=True):
                deferred.resolve(result)
        except BaseException:  # also a cancellation: no caller may wait for ever
            _cancel(wanted)
            raise


def _cancel(batch: Iterable[tuple[T, Deferred[R]]]) -> None:
    for _, result in batch:
        result.cancel()
