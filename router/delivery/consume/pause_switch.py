"""The switch that pauses a subscription, for example while effects cannot be stored.

Meanwhile nothing is pulled, no attempt is spent, and what is not stored gets no ack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PauseSwitch:
    """Open, or closed for causes that an operator can read. The part that closes it for a cause
    opens it again.
    """

    def __init__(self, changed: Callable[[str | None], None]) -> None:
        self._causes: dict[str, str] = {}
        self._changed = changed
        self._opened = asyncio.Event()
        self._opened.set()
        self.is_open = True  # a plain attribute, because it is read for each message

    @property
    def cause(self) -> str | None:
        return next(iter(self._causes.values()), None)

    def is_closed_by(self, by: str) -> bool:
        return by in self._causes

    def close(self, by: str, cause: str) -> None:
        self._causes[by] = cause
        if self.is_open:
            self.is_open = False
            self._opened.clear()
            self._changed(cause)

    def open(self, by: str) -> None:
        if self._causes.pop(by, None) is not None and not self._causes:
            self.is_open = True
            self._opened.set()
            self._changed(None)

    def reset(self) -> None:
        """Open for every cause: the parts that closed it have ended."""
        for by in list(self._causes):
            self.open(by)

    async def wait(self) -> None:
        """Until it is open."""
        await self._opened.wait()
