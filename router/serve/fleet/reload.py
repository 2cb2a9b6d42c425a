"""A rolling restart (SIGHUP): reads the settings again, then replaces the process of one slot after the other.

SIGHUP during a reload           one more reload afterwards, never two at a time
settings that are not legal      no process is replaced
code that has changed            the first new process refuses, so none is replaced: the parent must be restarted
a process that is not ready      its slot and those after it keep their processes
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from router.config import Settings
from router.process.observability import events, logs
from router.serve.fleet.process_slot import ProcessSlot

log = logs.logger(__name__)

ReadSettings = Callable[[], Settings]  # reads every source again; raises Misconfigured


class Reload:
    """The last child of the fleet's tree, so it is stopped first: no slot is replaced during shutdown."""

    def __init__(self, requested: asyncio.Event, read: ReadSettings) -> None:
        self._requested = requested
        self._read = read

    async def run(self, slots: Sequence[ProcessSlot]) -> None:
        try:
            while True:
                await self._requested.wait()
                self._requested.clear()
                await self._replace_all(slots)
        except asyncio.CancelledError:
            # Shutdown. The tree stops one slot after the other, but all processes drain at once: each has the same deadlines.
            for slot in slots:
                slot.terminate()
            raise

    async def _replace_all(self, slots: Sequence[ProcessSlot]) -> None:
        try:
            settings = self._read()
        except Exception as exc:  # a file that is not UTF-8, a missing directory: the running processes go on
            log.error(events.RELOAD_REFUSED, error=str(exc) or repr(exc))
            return
        log.info(events.RELOAD_BEGAN)
        for slot in slots:
            if (refusal := await slot.replace(settings)) is not None:
                log.error(events.RELOAD_REFUSED, process=slot.name, error=refusal)
                return
        log.info(events.RELOAD_ENDED)
