"""One of the N places of a fleet: a child of the supervision tree, served by one process at a time.

    run        a process serves in the slot; when it ends by itself, so does `run`, and the tree
               restarts it;
               one whose event loop hangs is killed
    replace    a second process starts beside the current one; once it is ready it takes over, and
               the first one drains

Requests are answered throughout a replacement. A replacement that does not get ready changes
nothing.
"""

from __future__ import annotations

import asyncio

from router.config import Settings
from router.core.errors import RouterError
from router.process.observability import ParentMetrics, ReadinessCheck
from router.process.observability.exposition import Snapshot
from router.serve.fleet.merge_snapshots import drop_gauges, merge_snapshots
from router.serve.fleet.process import ChildEnded, ChildProcess

# between two status requests: so old are the last metrics of a process that died
POLL_INTERVAL_S = 0.5
READY_TIMEOUT_S = 60.0  # for a replacement to connect, check the streams and load the policies


class ProcessSlot:
    """`number`: 1 to N. `settings`: those of its process."""

    def __init__(self, number: int, settings: Settings, metrics: ParentMetrics) -> None:
        self.name = f"process-{number}"
        self._number = number
        self._settings = settings
        self._metrics = metrics
        self._current: ChildProcess | None = None
        # the current one, its replacement, those that drain
        self._processes: list[ChildProcess] = []
        self._ended_counts: Snapshot = ()  # what ended processes counted
        metrics.up.set_function(lambda: int(self.check.ok), str(number))

    # -- for the pages -----------------------------------------------------------------------------

    @property
    def check(self) -> ReadinessCheck:
        return (
            self._current.check
            if self._current is not None
            else ReadinessCheck(False, "no process: it is being restarted")
        )

    @property
    def nats_url(self) -> str | None:
        """The server of its process; None while it is not ready."""
        return self._current.nats_url if self._current is not None else None

    def request_status(self) -> list[asyncio.Future[None]]:
        """Ask every process for its status."""
        return [process.request_status() for process in self._processes]

    def snapshots(self) -> list[Snapshot]:
        """Counters of all processes, ended ones included, and gauges of the current one."""
        running = (
            process.families if process is self._current else drop_gauges(process.families)
            for process in self._processes
        )
        return [self._ended_counts, *running]

    # -- the child of the tree ---------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled. Raises ChildEnded, or Misconfigured if a restart would not help."""
        try:
            ended = await self._wait_for_end(
                self._current or await self._take_slot(await self._start_process(self._settings))
            )
        except asyncio.CancelledError:
            await self.stop()
            raise
        failure = ended.failure
        self._metrics.restarts[str(self._number), "end" if failure is None else "crash"] += 1
        self._current = None
        self._remove(ended)
        if failure is not None:
            raise failure

    async def replace(self, settings: Settings) -> str | None:
        """Start another process, and let it take over when it is ready. Returns why it could not,
        or None.
        """
        try:
            replacement = await self._start_process(settings)
        except RouterError as exc:
            return str(exc)
        if not await replacement.wait_until_ready(READY_TIMEOUT_S):
            # read before it is stopped: a process that was told to end has not failed
            failure = replacement.failure
            await self._stop_process(replacement)
            return str(failure or f"it was not ready within {READY_TIMEOUT_S:.0f} s")
        previous, self._current, self._settings = self._current, replacement, settings
        self._metrics.restarts[str(self._number), "reload"] += 1
        if previous is not None:
            await self._stop_process(previous)
        return None

    def terminate(self) -> None:
        """Tell every process to drain and end, without waiting."""
        for process in self._processes:
            process.terminate()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    async def stop(self) -> None:
        """Wait until every process has drained and ended; if cancelled, kill them."""
        self.terminate()
        await asyncio.gather(*(self._stop_process(process) for process in list(self._processes)))

    # -- processes ---------------------------------------------------------------------------------

    async def _take_slot(self, started: ChildProcess) -> ChildProcess:
        """The process that serves: the one just started, unless a replacement got ready meanwhile."""
        if self._current is None:
            self._current = started
        else:
            await self._stop_process(started)
        return self._current

    async def _wait_for_end(self, process: ChildProcess) -> ChildProcess:
        """Wait until the current process has ended, which may be a replacement by then."""
        while not await process.wait_until_ended(POLL_INTERVAL_S) or process is not self._current:
            process = self._current or process
            process.end_if_silent(POLL_INTERVAL_S)
            self.request_status()
        return process

    async def _start_process(self, settings: Settings) -> ChildProcess:
        process = ChildProcess(self._number)
        self._processes.append(process)  # before it starts, so that a shutdown stops it too
        try:
            await process.start(
                settings.model_copy(update={"node_id": f"{settings.node_id}-{self._number}"})
            )
        except BaseException as exc:
            # also when cancelled: a process that did not start is not kept
            self._remove(process)
            if isinstance(exc, OSError):
                raise ChildEnded(f"{self.name} could not be started: {exc}") from exc
            raise
        return process

    async def _stop_process(self, process: ChildProcess) -> None:
        await process.stop()
        self._remove(process)

    def _remove(self, process: ChildProcess) -> None:
        """Keep its counts: Prometheus reads a counter that falls as a restart of all processes."""
        if process in self._processes:
            self._processes.remove(process)
            self._ended_counts = merge_snapshots(
                (self._ended_counts, drop_gauges(process.families))
            )
