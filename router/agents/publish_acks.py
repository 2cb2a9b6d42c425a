"""Record where outgoing messages are stored: publish acks arrive on the loop, and are written with
the next commit (protocol, step 5).

    expect (store's thread) ──> note: called by the consumer's observer ──> take: in the next batch's commit, or a quarter second later

A mark that is lost with the process costs only a second publish of its message, under the same id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from router.agents.rows import Mark, OutgoingRow
from router.core.outcome import PublishAck

FLUSH_DELAY_S = 0.25


class PublishAckBuffer:
    """Marks on their way into the store. The store's thread calls `expect` and `take`, the event
    loop the others.
    """

    def __init__(self) -> None:
        self._expected: dict[str, tuple[int, int]] = {}  # place in the store by message id
        self._marks: deque[Mark] = deque()
        self.wanted = asyncio.Event()

    def expect(self, messages: Iterable[OutgoingRow]) -> None:
        for one in messages:
            self._expected[one.id] = (one.place, one.number)

    def note(self, publish_acks: Sequence[PublishAck]) -> None:
        """All effects of a message have their publish ack; the message itself is not acked yet."""
        for publish_ack in publish_acks:
            place = self._expected.pop(publish_ack.id, None)
            if place is not None:  # else a dead letter, or a second ack of one message
                self._marks.append((publish_ack.stream, publish_ack.sequence, *place))
        self.wanted.set()

    def take(self) -> list[Mark]:
        return [self._marks.popleft() for _ in range(len(self._marks))]

    async def run(self, flush: Callable[[], Awaitable[None]]) -> None:
        """A supervised child: writes an idle agent's marks too, and the last ones at the end."""
        try:
            while True:
                await self.wanted.wait()
                self.wanted.clear()
                await asyncio.sleep(FLUSH_DELAY_S)
                if self._marks:
                    await flush()
        finally:
            if self._marks:
                await flush()
