"""Where outgoing messages stand: PubAcks come in on the loop, and are written down with the next commit (protocol, step 5).

    expect (store's thread) ──> note: told by the lane's observer ──> take: in the next batch's commit, or a quarter second later

A mark that is lost with the process costs nothing but its message once more, under the same id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from router.outcome import Receipt
from router.runtime.rows import Mark, OutgoingRow

PAUSE_S = 0.25


class Receipts:
    """Marks on their way into the store. `expect` and `take` are called in the store's thread, the others on the loop."""

    def __init__(self) -> None:
        self._expected: dict[str, tuple[int, int]] = {}  # by message id: its place in the store
        self._marks: deque[Mark] = deque()
        self.wanted = asyncio.Event()

    def expect(self, messages: Iterable[OutgoingRow]) -> None:
        for one in messages:
            self._expected[one.id] = (one.place, one.number)

    def note(self, receipts: Sequence[Receipt]) -> None:
        """All of a message's effects have their receipt; it is not stamped yet."""
        for receipt in receipts:
            place = self._expected.pop(receipt.id, None)
            if place is not None:  # else a letter, or a message that was told twice
                self._marks.append((receipt.stream, receipt.sequence, *place))
        self.wanted.set()

    def take(self) -> list[Mark]:
        return [self._marks.popleft() for _ in range(len(self._marks))]

    async def run(self, flush: Callable[[], Awaitable[None]]) -> None:
        """A supervised child: an idle agent's marks are written down too, and the last ones at the end."""
        try:
            while True:
                await self.wanted.wait()
                self.wanted.clear()
                await asyncio.sleep(PAUSE_S)
                if self._marks:
                    await flush()
        finally:
            if self._marks:
                await flush()
