"""The parent of N router processes: one supervision tree, one HTTP port, one shutdown.

start    a process for every slot; ready once all of them answer requests
ready    as long as the current process of each slot is; a rolling restart keeps it ready
reload   on SIGHUP the settings are read again, and the process of one slot after the other is
         replaced
end      all processes drain at once, each within its own deadlines; the port closes last
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from router.config import Settings
from router.process.observability import ParentMetrics, ReadinessCheck, events, logs, render
from router.process.observability.exposition import CONTENT_TYPE, Snapshot, process_families
from router.process.supervision import Child, Intensity, Supervisor
from router.serve.contract.contract_document import ContractPages
from router.serve.fleet.merge_snapshots import merge_snapshots
from router.serve.fleet.process import stop_timeout_s
from router.serve.fleet.process_slot import ProcessSlot
from router.shell.host import ProcessHost

# -- The fleet.

RESTARTS_PER_PROCESS, RESTARTS_WITHIN_S = 5, 30
# of all together: pauses grow to a second each, so a crash loop never exceeds thirty in 30 s
MAX_RESTARTS = 20
# a scrape waits so long for all processes together; of a late one it shows the last status
SCRAPE_TIMEOUT_S = 1.0


class Fleet:
    """`read` returns the settings, at the start and at each reload; the number of processes and the
    port stay as at the start.

    `on_ready` is called once, when all processes answer requests, with the server's URL and that of
    the pages.
    """

    def __init__(
        self, read: ReadSettings, on_ready: Announce = lambda _nats_url, _http: None
    ) -> None:
        self.metrics = ParentMetrics()
        self._read = read
        self._on_ready = on_ready
        self._reload_requested = asyncio.Event()
        self._slots: Sequence[ProcessSlot] = ()
        self._host = ProcessHost()

    async def run(self) -> None:
        """Serve until cancelled. Raises Misconfigured, or SupervisionFailed if processes end too
        often.
        """
        try:
            await self._host.run(self.tree(self._read()), self._announce, self._is_ready)
        finally:
            if _is_cancelled_twice():
                for slot in self._slots:
                    slot.kill()
            # processes whose slot was not running
            await asyncio.gather(*(slot.stop() for slot in self._slots))

    def reload(self) -> None:
        """Read the settings again and replace every process. During a reload: once more afterwards."""
        self._reload_requested.set()

    def tree(self, settings: Settings) -> Supervisor:
        """The supervision tree; building it starts nothing."""
        numbers = range(1, settings.processes + 1)
        slots = self._slots = tuple(
            ProcessSlot(number, settings, self.metrics) for number in numbers
        )
        stop_s = stop_timeout_s(settings)
        where, contract = settings.http, ContractPages(settings)
        http = self._host.pages(where.host, where.port, self, self.readiness, contract.read)
        processes = (Child(slot.name, slot.run, shutdown_s=stop_s) for slot in slots)
        reload = Child("reload", lambda: Reload(self._reload_requested, self._read).run(slots))
        return Supervisor(
            "fleet", (http, *processes, reload), intensity=_scale_restarts(len(slots))
        )

    # -- the pages ---------------------------------------------------------------------------------

    def readiness(self) -> Mapping[str, ReadinessCheck]:
        """The checks of /readyz: one for each slot."""
        return {slot.name: slot.check for slot in self._slots}

    async def exposition(self, content_type: str = CONTENT_TYPE) -> bytes:
        """The merged metrics of all processes."""
        if answers := [answer for slot in self._slots for answer in slot.request_status()]:
            await asyncio.wait(answers, timeout=SCRAPE_TIMEOUT_S)
        snapshots = [snapshot for slot in self._slots for snapshot in slot.snapshots()]
        return await asyncio.to_thread(
            _render, [self.metrics.registry.snapshot(), *snapshots], content_type
        )

    # -- ready -------------------------------------------------------------------------------------

    def _is_ready(self) -> bool:
        return all(slot.nats_url is not None for slot in self._slots)

    def _announce(self) -> None:
        log.info(events.ROUTER_READY)
        self._on_ready(self._slots[0].nats_url or "", self._host.url)


def _scale_restarts(processes: int) -> Intensity:
    """Allow more restarts for more processes, up to MAX_RESTARTS."""
    return Intensity(min(RESTARTS_PER_PROCESS * processes, MAX_RESTARTS), RESTARTS_WITHIN_S)


def _is_cancelled_twice() -> bool:
    """A second signal: end at once. The server redelivers the messages in flight, as after a crash."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


def _render(snapshots: Sequence[Snapshot], content_type: str) -> bytes:
    return render(
        merge_snapshots((*snapshots, process_families(os.getpid(), "parent"))),
        process=False,
        content_type=content_type,
    )


# -- The reload, a rolling restart.
#
# SIGHUP during a reload           one more reload afterwards, never two at a time
# settings that are not legal      no process is replaced
# code that has changed            the first new process refuses, so none is replaced: the parent
# must be restarted
# a process that is not ready      its slot and those after it keep their processes

log = logs.logger(__name__)

ReadSettings = Callable[[], Settings]  # reads every source again; raises Misconfigured
Announce = Callable[[str, str], None]  # gets the server's URL and that of the pages


class Reload:
    """The last child of the fleet's tree, so it is stopped first: no slot is replaced during
    shutdown.
    """

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
            # Shutdown. The tree stops one slot after the other, but all processes drain at once:
            # each has the same deadlines.
            for slot in slots:
                slot.terminate()
            raise

    async def _replace_all(self, slots: Sequence[ProcessSlot]) -> None:
        try:
            settings = self._read()
        except Exception as exc:
            # a file that is not UTF-8, a missing directory: the running processes go on
            log.error(events.RELOAD_REFUSED, error=str(exc) or repr(exc))
            return
        log.info(events.RELOAD_BEGAN)
        for slot in slots:
            if (refusal := await slot.replace(settings)) is not None:
                log.error(events.RELOAD_REFUSED, process=slot.name, error=refusal)
                return
        log.info(events.RELOAD_ENDED)
