"""A background task that its process can do without for a while: gauges, retention, a scan. Its
failure never ends the process.

    it fails ──> one log line a minute for each kind of failure, `is_failing` for a gauge ──> a pause ──> it is restarted

An ordinary child that fails uses up its supervisor's restarts, and then the process ends. A helper
restarts itself and uses up none. Only Misconfigured is escalated, as from any child, because a
restart does not correct a setting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from router.core.backoff import delay_after
from router.core.clock import Clock, steady
from router.core.errors import Misconfigured, RouterError
from router.process.observability import LogRateLimit, events, logs
from router.process.supervision.tree import Child

log = logs.logger(__name__)

Pause = Callable[[float], Awaitable[None]]
PAUSES_S = (1.0, 5.0, 15.0, 30.0, 60.0)  # by the number of failures in a row
STABLE_AFTER_S = 60.0  # a run that lasts longer resets the count of failures, and `is_failing`


class Helper:
    """Runs one background task until it is cancelled, restarting it after failures."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        *,
        clock: Clock = steady,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self.name = name
        self._run = run
        self._clock = clock
        self._pause = pause
        self._failures = 0  # in a row
        self._failing_until = 0.0
        self._lines = LogRateLimit(every_s=60.0, clock=clock)

    @property
    def child(self) -> Child:
        return Child(self.name, self.run)

    @property
    def is_failing(self) -> bool:
        """Whether it failed, and has not run for CALM_S since."""
        return self._clock() < self._failing_until

    async def run(self) -> None:
        """Raises Misconfigured."""
        while True:
            try:
                await self._run()
                await self._pause(PAUSES_S[0])
            except Misconfigured:
                raise
            except Exception as exc:  # no failure of a helper is escalated
                await self._pause(self._record(exc))

    def _record(self, exc: Exception) -> float:
        """Count and log the failure; returns the seconds to pause."""
        self._failures = self._failures + 1 if self.is_failing else 1
        pause_s = delay_after(self._failures, PAUSES_S)
        self._failing_until = self._clock() + pause_s + STABLE_AFTER_S
        if self._lines.allow(type(exc).__name__):
            cause = str(exc) if isinstance(exc, RouterError) else type(exc).__name__
            log.error(
                events.HELPER_FAILED,
                helper=self.name,
                cause=cause,
                restart_in_s=pause_s,
                exc_info=exc,
            )
        return pause_s


def helper_states(helpers: Iterable[Helper]) -> Mapping[tuple[str, ...], int]:
    """The series of `router_helper_failing`: by name, 1 for a helper that fails."""
    return {(helper.name,): int(helper.is_failing) for helper in helpers}
