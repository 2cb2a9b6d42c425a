"""Replays and discards of the console: one at a time, in the background, with progress and a stop.
A child of the console's tree.

At most `MAX_WAITING` wait; the last `KEPT` are remembered, in this process only. What a run is
about to do, and what it did, is in the audit. A console that is killed within a replay leaves its
journal (`operate.dead_letters.replay`): the next replay finishes it first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from secrets import token_urlsafe

from msgspec import Struct

from router.core.clock import wall
from router.core.errors import RouterError, describe_causes
from router.operate.dead_letters import DeadLetterBatch
from router.process.observability import events, logs

KEPT = 20
MAX_WAITING = 8
WAITING, RUNNING, DONE, STOPPED, FAILED = "waiting", "running", "done", "stopped", "failed"
log = logs.logger(__name__)

Facts = Mapping[str, object]


class TooManyRuns(RouterError):
    """As many replays and discards wait as may; wait for one to end."""

    code = "too_many_runs"


class MendRun(Struct, eq=False, kw_only=True):
    """One run. Times: seconds since the epoch, of this process. `tenant`: of a user who is limited
    to it.
    """

    name: str
    what: str
    target: str
    by: str
    tenant: str | None
    state: str = WAITING
    looked: int = 0
    total: int = 0
    facts: Facts = {}
    cause: str = ""
    is_stopping: bool = False
    changed_at: float
    version: int = 0

    @property
    def is_over(self) -> bool:
        return self.state in (DONE, STOPPED, FAILED)

    def advance(self, looked: int, total: int) -> None:
        self.looked, self.total = looked, total
        self.touch()

    def touch(self) -> None:
        self.changed_at = wall()
        self.version += 1


Work = Callable[[MendRun], Awaitable[Facts]]


class MendRuns:
    def __init__(self) -> None:
        self._runs: OrderedDict[str, MendRun] = OrderedDict()
        self._queue: asyncio.Queue[tuple[MendRun, Work]] = asyncio.Queue(MAX_WAITING)

    def add(self, what: str, target: str, by: str, tenant: str | None, work: Work) -> MendRun:
        """Raises TooManyRuns."""
        run = MendRun(
            name=token_urlsafe(9), what=what, target=target, by=by, tenant=tenant, changed_at=wall()
        )
        try:
            self._queue.put_nowait((run, work))
        except asyncio.QueueFull:
            raise TooManyRuns(
                "as many replays and discards wait as may: wait for one to end"
            ) from None
        self._runs[run.name] = run
        for name in [name for name, older in self._runs.items() if older.is_over][
            : max(0, len(self._runs) - KEPT)
        ]:
            del self._runs[name]
        return run

    def find(self, name: str) -> MendRun | None:
        return self._runs.get(name)

    def list_newest_first(self) -> list[MendRun]:
        return list(reversed(self._runs.values()))

    def stop(self, run: MendRun) -> None:
        """What was begun is finished, and nothing more is taken."""
        run.is_stopping = True
        run.touch()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            run, work = await self._queue.get()
            await self._work(run, work)

    async def _work(self, run: MendRun, work: Work) -> None:
        if run.is_stopping:
            self._end(run, STOPPED)
            return
        run.state = RUNNING
        run.touch()
        try:
            run.facts = await work(run)
        except RouterError as exc:
            self._end(run, FAILED, describe_causes(exc))
        except asyncio.CancelledError:
            self._end(run, FAILED, "the console ended")
            raise
        except Exception as exc:  # a mistake of ours ends this run, not those that wait behind it
            log.exception(events.CONSOLE_RUN_FAILED, what=run.what, target=run.target)
            self._end(
                run, FAILED, f"an error of the console, which its log has: {type(exc).__name__}"
            )
        else:
            self._end(run, STOPPED if run.is_stopping else DONE)

    @staticmethod
    def _end(run: MendRun, state: str, cause: str = "") -> None:
        run.state, run.cause = state, cause
        run.touch()


async def take_until_stopped(
    run: MendRun, batches: AsyncIterator[DeadLetterBatch]
) -> AsyncIterator[DeadLetterBatch]:
    """The batches, until the run is to stop."""
    async for batch in batches:
        if run.is_stopping:
            return
        yield batch
