"""Messages whose handler found the broker away: held, kept alive, and begun again until it works. Nothing is spent.

    a handler raises BrokerUnavailable ──> take: the pause switch closes with the cause
                                            └─ every `store_retry`: the first one is begun again, the same start
                                                 └─ it works: the pause switch opens, the others wait their turn as if new

What a handler stands on (a bucket) may be away while effects can be stored, so `settle` does not do this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Outcome
from router.delivery.pause_switch import PauseSwitch

HANDLER = "handler"


class UnavailableRetry:
    """The stalled messages of one subscription."""

    def __init__(
        self,
        pause_switch: PauseSwitch,
        retry_s: float,
        *,
        begin: Callable[[Message], Awaitable[Outcome]],
        on_available: Callable[[Message, Outcome, list[Message]], None],
        start_task: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._pause_switch = pause_switch
        self._retry_s = retry_s
        self._begin = begin  # raises BrokerUnavailable as long as it does not work
        self._on_available = on_available  # hears of the first one's outcome, and who else stalled
        self._start_task = start_task
        self._messages: deque[Message] = deque()

    def take(self, message: Message, cause: BrokerUnavailable) -> None:
        """One more; it must be in hand already."""
        self._messages.append(message)
        self._pause_switch.close(HANDLER, str(cause))
        if len(self._messages) == 1:
            self._start_task(self._try_again())

    async def _try_again(self) -> None:
        first = self._messages[0]
        while True:
            await asyncio.sleep(self._retry_s)
            try:
                outcome = await self._begin(first)
            except BrokerUnavailable:
                continue
            break
        others = [message for message in self._messages if message is not first]
        self._messages.clear()
        self._on_available(first, outcome, others)
        self._pause_switch.open(HANDLER)

    def abandon(self) -> list[Message]:
        """The end: the caller NAKs these messages for the next puller and cancels the background task."""
        stalled = list(self._messages)
        self._messages.clear()
        return stalled
