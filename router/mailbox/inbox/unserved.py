"""Events that their service does not serve: held and asked about again, while others show whose fault it is.

    404, 302, 400 …   ──> held, asked again after 1, 2, 4 … times `retry_s`; no delivery is spent
        others are served in between       it is this event: a failure, at this delivery and the next ones
        none is                            it is the service: held until an operator mends the address, and readiness says so
    429               ──> held: a service that throttles says nothing of the event

An event that is held takes one of the inbox's slots and delays no other event: a consumer that paused for it
would never learn that the others are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from router.core.backoff import delay_after
from router.mailbox.inbox.handling import Blame, HandlerAnswer

SERVED_SINCE = 10  # so many events served since one was not served first: the service is there
IN_A_ROW = 3  # answers that serve no event, and it is told as trouble
MAX_REFUSED = 1000  # ids of events that were not served; the oldest is forgotten first
TIMES = (1, 2, 4, 8, 16, 32)  # the waits, in `retry_s`


class UnservedEvents:
    """Of one inbox. `on_trouble` gets the cause when the service serves no event any more, and None when it serves again."""

    def __init__(self, retry_s: float, on_trouble: Callable[[str | None], None]) -> None:
        self._waits = tuple(times * retry_s for times in TIMES)
        self._on_trouble = on_trouble
        self._served = 0
        self._refused: dict[str, int] = {}  # by message id: how many events had been served when it was refused first
        self._in_a_row = 0
        self._back = asyncio.Event()
        self.trouble: str | None = None  # why no event is served

    async def ask(
        self, message_id: str, ask: Callable[[], Awaitable[HandlerAnswer]], hold: Callable[[str], Awaitable[bool]]
    ) -> HandlerAnswer | None:
        """Return the answer that counts. Before each wait for one `hold` gets the cause: False ends the waiting, and the result is None.

        An error of `ask` passes.
        """
        times = 0
        while True:
            answer = await ask()
            if answer.blame is Blame.EVENT:
                self._note_served(message_id, answer)
                return answer
            if answer.blame is Blame.UNKNOWN and self._is_at_fault(message_id):
                return answer
            self._note_unserved(answer)
            times += 1
            if not await hold(f"not served: {answer.detail}"):
                return None
            await self._wait(delay_after(times, self._waits))

    def _is_at_fault(self, message_id: str) -> bool:
        """Whether enough others were served since the event was first refused, now or at an earlier delivery."""
        first = self._refused.setdefault(message_id, self._served)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        return self._served - first >= SERVED_SINCE and self.trouble is None

    def _note_served(self, message_id: str, answer: HandlerAnswer) -> None:
        if not answer.is_useful:
            return
        self._refused.pop(message_id, None)
        self._served += 1
        self._in_a_row = 0
        if self.trouble is not None:
            self.trouble = None
            self._back.set()
            self._on_trouble(None)

    def _note_unserved(self, answer: HandlerAnswer) -> None:
        self._in_a_row += 1
        if self._in_a_row == IN_A_ROW:
            self._back.clear()
        if self._in_a_row >= IN_A_ROW and self.trouble is None:
            self.trouble = f"the handler answers {answer.detail}: is inbox.handler.url its address?"
            self._on_trouble(self.trouble)

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until the service serves again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (self._back.wait() if self.trouble is not None else asyncio.Event().wait())
