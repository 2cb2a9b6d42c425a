"""The parent of N worker processes: one tree, one port for operators, one end.

start   every seat its process; ready once all of them answer requests
ready   as long as the holder of each seat is; a rolling restart takes none away, so it does not show
end     all drain at once, each within its own deadlines; the port closes last
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from router.config import Settings
from router.fleet.adding import added
from router.fleet.process import ends_within_s
from router.fleet.reload import Read, Reload
from router.fleet.seat import Seat
from router.observability import HttpServer, ParentMetrics, ReadinessCheck, events, logs, render
from router.observability.exposition import Snapshot, process_families
from router.supervision import Child, Intensity, Supervisor, supervise

log = logs.logger(__name__)

OFTEN = Intensity(5, 30)  # for each worker
MOST = 20  # for all: waits grow to a second each, so a storm never comes to more than thirty in as many seconds
ANSWER_S = 1.0  # a scrape waits so long for all workers together; who is late counts as he stood before


def _nobody_waits(_nats_url: str, _http: str) -> None:
    """For a tree that is only looked at."""


class Fleet:
    """`read` gives the settings, at the start and at each reload; the number of workers and the port are the first ones'.

    `on_ready` hears once, when all of them answer requests, by which server, and where the pages are.
    """

    def __init__(self, read: Read, on_ready: Callable[[str, str], None] = _nobody_waits) -> None:
        self.metrics = ParentMetrics()
        self._read = read
        self._on_ready = on_ready
        self._reload = asyncio.Event()
        self._seats: Sequence[Seat] = ()
        self._http = ""
        self._is_ready = False

    async def run(self) -> None:
        """Serve until cancelled. Raises Misconfigured, or SupervisionFailed when workers end too often."""
        try:
            await supervise(self.tree(self._read()))
        finally:
            if _is_told_twice():
                for seat in self._seats:
                    seat.kill()
            await asyncio.gather(*(seat.clear() for seat in self._seats))  # a process that no child was waiting for

    def reload(self) -> None:
        """Read the settings anew and replace every process by a new one; asked again meanwhile, once more afterwards."""
        self._reload.set()

    def tree(self, settings: Settings) -> Supervisor:
        """The supervision tree; nothing is started by it."""
        seats = self._seats = tuple(Seat(n + 1, settings, self.metrics, self._announce) for n in range(settings.workers))
        stop_s = ends_within_s(settings)
        port = HttpServer(settings.http.host, settings.http.port, self, self.readiness)
        http = Child("http", lambda: port.run(lambda number: self._bound(settings.http.host, number)))
        workers = (Child(seat.name, seat.run, shutdown_s=stop_s) for seat in seats)
        reload = Child("reload", lambda: Reload(self._reload, self._read).run(seats))
        return Supervisor("fleet", (http, *workers, reload), intensity=_scaled(OFTEN, len(seats)))

    # -- the pages -----------------------------------------------------------------------------------------------

    def readiness(self) -> Mapping[str, ReadinessCheck]:
        """The checks behind /readyz: one for each worker, with what ails it."""
        return {seat.name: seat.check for seat in self._seats}

    async def exposition(self) -> bytes:
        """Every process' metrics, added up."""
        if answers := [answer for seat in self._seats for answer in seat.ask()]:
            await asyncio.wait(answers, timeout=ANSWER_S)
        told = [snapshot for seat in self._seats for snapshot in seat.snapshots()]
        return await asyncio.to_thread(_rendered, [self.metrics.registry.snapshot(), *told])

    # -- ready ---------------------------------------------------------------------------------------------------

    def _bound(self, host: str, port: int) -> None:
        self._http = f"http://{host}:{port}"
        self._announce()

    def _announce(self) -> None:
        """Once, when the port is open and every worker answers requests."""
        urls = [seat.nats_url for seat in self._seats]
        if self._is_ready or not self._http or None in urls:
            return
        self._is_ready = True
        log.info(events.ROUTER_READY)
        self._on_ready(urls[0] or "", self._http)


def _scaled(each: Intensity, workers: int) -> Intensity:
    """More processes end more often, and no worse for it."""
    return Intensity(min(each.restarts * workers, max(each.restarts, MOST)), each.seconds)


def _is_told_twice() -> bool:
    """Nobody waits any more: what workers have in hand comes again, as after a crash."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


def _rendered(snapshots: Sequence[Snapshot]) -> bytes:
    return render(added((*snapshots, process_families(os.getpid(), "worker", "parent"))), process=False)
