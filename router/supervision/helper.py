"""A child that its process can do without for a while: figures, retention, a sweep. Its failure never ends the process.

    it fails ──> one log line a minute for each kind of failure, `is_failing` for a gauge ──> it rests ──> it begins again

A failing child of a supervisor uses up its supervisor's restarts, and then all of the process ends. A helper restarts itself and
uses up none. Only Misconfigured climbs, as from any child: no restart mends a setting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from router.backoff import delay_after
from router.clock import Clock, steady
from router.errors import Misconfigured, RouterError
from router.observability import LogRateLimit, events, logs
from router.supervision.tree import Child

log = logs.logger(__name__)

Pause = Callable[[float], Awaitable[None]]
RESTS_S = (1.0, 5.0, 15.0, 30.0, 60.0)  # by the number of failures in a row
CALM_S = 60.0  # a start that lasts longer begins a new row, and ends `is_failing`


class Helper:
    """One helper. `run` is its child's; it ends only when it is cancelled."""

    def __init__(self, name: str, run: Callable[[], Awaitable[None]], *, clock: Clock = steady, pause: Pause = asyncio.sleep) -> None:
        self.name = name
        self._run = run
        self._clock = clock
        self._pause = pause
        self._failures = 0  # in a row
        self._failing_until = 0.0
        self._lines = LogRateLimit(every_s=60.0, clock=clock)

    @property
    def child(self) -> Child:
        """For a supervision tree."""
        return Child(self.name, self.run)

    @property
    def is_failing(self) -> bool:
        """It failed, and has not worked for CALM_S since."""
        return self._clock() < self._failing_until

    async def run(self) -> None:
        """Raises Misconfigured."""
        while True:
            try:
                await self._run()
                await self._pause(RESTS_S[0])
            except Misconfigured:
                raise
            except Exception as exc:  # a helper's failure must not climb, whatever it is
                await self._pause(self._note(exc))

    def _note(self, exc: Exception) -> float:
        """How long to rest."""
        self._failures = self._failures + 1 if self.is_failing else 1
        rest = delay_after(self._failures, RESTS_S)
        self._failing_until = self._clock() + rest + CALM_S
        if self._lines.allow(type(exc).__name__):
            cause = str(exc) if isinstance(exc, RouterError) else type(exc).__name__
            log.error(events.HELPER_FAILED, helper=self.name, cause=cause, again_in_s=rest, exc_info=exc)
        return rest


def failing(helpers: Iterable[Helper]) -> Mapping[tuple[str, ...], int]:
    """By name, 1 for those that fail: the series of `router_helper_failing`."""
    return {(helper.name,): int(helper.is_failing) for helper in helpers}
