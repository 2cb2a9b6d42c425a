"""A rolling restart: new settings, then one seat after the other, when somebody asks for it (SIGHUP).

asked again meanwhile     once more afterwards, never two at a time
settings that are wrong   nothing is restarted
code that has changed     the first process refuses, so nothing is: a new parent is needed
a process not ready       its seat and those after it keep what they have
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from router.config import Settings
from router.fleet.seat import Seat
from router.observability import events, logs

log = logs.logger(__name__)

Read = Callable[[], Settings]  # every source anew; raises Misconfigured


class Reload:
    """The last child of the fleet's tree, so the first to be stopped: then no seat is renewed any more."""

    def __init__(self, asked: asyncio.Event, read: Read) -> None:
        self._asked = asked
        self._read = read

    async def run(self, seats: Sequence[Seat]) -> None:
        try:
            while True:
                await self._asked.wait()
                self._asked.clear()
                await self._roll(seats)
        except asyncio.CancelledError:
            # The end of all. Seats are stopped one after the other, but all drain at once: the deadlines are the same for each.
            for seat in seats:
                seat.tell()
            raise

    async def _roll(self, seats: Sequence[Seat]) -> None:
        try:
            settings = self._read()
        except Exception as exc:  # a file that is no UTF-8, a directory gone: whatever it is, requests are answered meanwhile
            log.error(events.RELOAD_REFUSED, error=str(exc) or repr(exc))
            return
        log.info(events.RELOAD_BEGAN)
        for seat in seats:
            if (refusal := await seat.renew(settings)) is not None:
                log.error(events.RELOAD_REFUSED, worker=seat.name, error=refusal)
                return
        log.info(events.RELOAD_ENDED)
