"""Handle many messages at once: the messages that come while one batch is handled are the next batch.

    take (a subscription's `handle`) ──> waiting ──┐
                                                   └─ run: all that wait ──> handle ──> an outcome for each

Under load a batch grows until its fixed cost (an fsync, a round trip) hardly counts; a message that comes alone does not wait.
`take` returns a `Deferred`, so a message costs no task, future or slot.

If `handle` raises, `run` ends: the messages are cancelled, and the subscription NAKs them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from router.core.deferred import Deferred
from router.core.message import Message
from router.core.outcome import Outcome

BatchHandler = Callable[[Sequence[Message]], Awaitable[Sequence[Outcome]]]  # an outcome for each message, in their order

MAX_BATCH = 1024


class Batches:
    """`take` is the subscription's handle, `run` a supervised child; `most`: messages in one batch."""

    def __init__(self, handle: BatchHandler, most: int = MAX_BATCH) -> None:
        self._handle = handle
        self._most = most
        self._waiting: deque[tuple[Message, Deferred[Outcome]]] = deque()
        self._has_some = asyncio.Event()
        self._is_over = False

    def take(self, message: Message) -> Deferred[Outcome]:
        later: Deferred[Outcome] = Deferred()
        if self._is_over:
            later.cancel()
        else:
            self._waiting.append((message, later))
            self._has_some.set()
        return later

    async def run(self) -> None:
        """Until cancelled, or until `handle` raises."""
        self._is_over = False
        try:
            while True:
                await self._has_some.wait()
                await self._work([self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))])
                if not self._waiting:
                    self._has_some.clear()
        finally:
            self._is_over = True
            _cancel(self._waiting)
            self._waiting.clear()

    async def _work(self, batch: Sequence[tuple[Message, Deferred[Outcome]]]) -> None:
        wanted = [(message, later) for message, later in batch if not later.is_resolved]  # a drain may have taken some back
        try:
            outcomes = await self._handle([message for message, _ in wanted])
        except BaseException:
            _cancel(wanted)
            raise
        for (_, later), outcome in zip(wanted, outcomes, strict=True):
            later.resolve(outcome)


def _cancel(batch: Sequence[tuple[Message, Deferred[Outcome]]] | deque[tuple[Message, Deferred[Outcome]]]) -> None:
    for _, later in batch:
        later.cancel()
