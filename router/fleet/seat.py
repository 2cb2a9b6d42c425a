"""One of the N places of a fleet: a child of the tree, held by one process at a time.

    run      a process holds it; when that ends by itself, so does this, and the tree starts it again
    renew    a second process is started beside the holder; once it answers, it is the holder, and the first one drains

Somebody answers requests in this seat all through a renewal, and a replacement that does not get ready changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from router.config import Settings
from router.errors import RouterError
from router.fleet.adding import added, lasting
from router.fleet.process import WorkerEnded, WorkerProcess
from router.observability import ParentMetrics, ReadinessCheck
from router.observability.exposition import Snapshot

PULSE_S = 0.5  # between two questions to each process: so old is what the pages know of one that died
READY_WITHIN_S = 60.0  # a replacement; it connects, looks at the streams, and loads policies


class Seat:
    """`number`: 1 to N. `settings`: its process'. `on_ready` is called whenever its holder begins to answer requests."""

    def __init__(self, number: int, settings: Settings, metrics: ParentMetrics, on_ready: Callable[[], None]) -> None:
        self.name = f"worker-{number}"
        self._number = number
        self._settings = settings
        self._metrics = metrics
        self._on_ready = on_ready
        self._holder: WorkerProcess | None = None
        self._processes: list[WorkerProcess] = []  # the holder, its replacement, those that drain
        self._dead: Snapshot = ()  # what processes that ended had counted
        metrics.up.set_function(lambda: int(self.check.ok), str(number))

    # -- what the pages tell -------------------------------------------------------------------------------------

    @property
    def check(self) -> ReadinessCheck:
        return self._holder.check if self._holder is not None else ReadinessCheck(False, "no process: it is started again")

    @property
    def nats_url(self) -> str | None:
        """By which server its requests are answered; None: they are not."""
        return self._holder.nats_url if self._holder is not None else None

    def ask(self) -> list[asyncio.Future[None]]:
        """Ask every process how it stands."""
        return [process.ask() for process in self._processes]

    def snapshots(self) -> list[Snapshot]:
        """What the dead had counted, and what the living told: all of them what they count, the holder how it stands."""
        told = (one.families if one is self._holder else lasting(one.families) for one in self._processes)
        return [self._dead, *told]

    # -- the child -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Hold the seat until cancelled. Raises WorkerEnded, or Misconfigured where no restart would help."""
        try:
            holder = await self._outlived(self._holder or await self._taken(await self._begun(self._settings)))
        except asyncio.CancelledError:
            await self.clear()
            raise
        failure = holder.ended
        self._metrics.restarts[str(self._number), "end" if failure is None else "crash"] += 1
        self._holder = None
        self._bury(holder)
        if failure is not None:
            raise failure

    async def renew(self, settings: Settings) -> str | None:
        """Another process in the place of the holder; why not, if it did not get ready."""
        try:
            replacement = await self._begun(settings)
        except RouterError as exc:
            return str(exc)
        if not await replacement.becomes_ready(READY_WITHIN_S):
            await self._end(replacement)
            return str(replacement.ended or f"it was not ready within {READY_WITHIN_S:.0f} s")
        old, self._holder, self._settings = self._holder, replacement, settings
        self._metrics.restarts[str(self._number), "reload"] += 1
        if old is not None:
            await self._end(old)
        return None

    def tell(self) -> None:
        """Every process: drain, and end. Nobody is waited for."""
        for process in self._processes:
            process.tell()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    async def clear(self) -> None:
        """Every process ends; cancelled meanwhile, they are killed."""
        self.tell()
        await asyncio.gather(*(self._end(process) for process in list(self._processes)))

    # -- processes -----------------------------------------------------------------------------------------------

    async def _taken(self, newcomer: WorkerProcess) -> WorkerProcess:
        """The holder: the newcomer, unless a replacement got ready while that one was being started."""
        if self._holder is None:
            self._holder = newcomer
        else:
            await self._end(newcomer)
        return self._holder

    async def _outlived(self, holder: WorkerProcess) -> WorkerProcess:
        """Wait until the holder is gone, whoever that is by then."""
        while not await holder.is_gone(PULSE_S) or holder is not self._holder:
            holder = self._holder or holder
            self.ask()
        return holder

    async def _begun(self, settings: Settings) -> WorkerProcess:
        process = WorkerProcess(self._number, self._on_ready)
        self._processes.append(process)  # now already, so that whoever ends all ends this one, too
        try:
            await process.begin(settings.model_copy(update={"node_id": f"{settings.node_id}-{self._number}"}))
        except BaseException as exc:  # cancelled as well: a process that never began is nobody's
            self._bury(process)
            if isinstance(exc, OSError):
                raise WorkerEnded(f"{self.name} could not be started: {exc}") from exc
            raise
        return process

    async def _end(self, process: WorkerProcess) -> None:
        await process.end()
        self._bury(process)

    def _bury(self, process: WorkerProcess) -> None:
        """What it counted is kept: a counter that fell would be read as a restart of all."""
        if process in self._processes:
            self._processes.remove(process)
            self._dead = added((self._dead, lasting(process.families)))
