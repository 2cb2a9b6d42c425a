"""A child process of a fleet: `python -m router.serve.fleet.child FD`, a whole RouterService
without an HTTP port.

StartChild    the parent sends the settings; ChildStarted when requests are answered
ReadStatus    answered by ChildStatus: the snapshot costs the loop a fraction of a millisecond
SIGTERM       or a closed socket pair, when the parent has died: drain, send the last ChildStatus,
              end with status 0;
              a second SIGTERM changes nothing, because the parent kills a child that must end at
              once
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import sys
from collections.abc import Callable

import msgspec

from router.core.errors import Misconfigured, RouterError, describe_causes
from router.process.child_process import Ipc
from router.process.observability import configure, events, logs
from router.process.observability.tracing_setup import export_spans
from router.serve.fleet.ipc import (
    BuildChanged,
    ChildFailed,
    ChildStarted,
    ChildStatus,
    FromParent,
    ReadStatus,
    StartChild,
    build_id,
)
from router.serve.service import RouterService

log = logs.logger("router.serve.fleet.child")  # not `__main__`

OK, FAILED, MISCONFIGURED = 0, 1, 2


def main(descriptor: int) -> int:
    # Ctrl-C in the terminal and reloads are for the parent
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as end, export_spans():
        end.set_inheritable(False)
        return asyncio.run(_run(end))


async def _run(end: socket.socket) -> int:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    work, stopping = asyncio.create_task(_serve(end, stop.set)), asyncio.create_task(stop.wait())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    work.cancel()  # once only: a second cancellation would cut the drain short
    await asyncio.wait({work})
    return OK if work.cancelled() else work.result()


async def _serve(end: socket.socket, stop: Callable[[], None]) -> int:
    child = ChildService(stop)
    await child.ipc.open(end)
    try:
        await child.serve()
    except RouterError as exc:
        child.send_failure(exc)
        return MISCONFIGURED if isinstance(exc, Misconfigured) else FAILED
    finally:
        child.send_status()
        await child.ipc.close()
    return OK


class ChildService:
    """The RouterService of a child, and the answers to its parent."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.ipc = Ipc(msgspec.msgpack.Decoder(FromParent), self._on_frame, self._on_parent_died)
        self._stop = stop
        self._start: asyncio.Future[StartChild] = asyncio.get_running_loop().create_future()
        self._service: RouterService | None = None

    async def serve(self) -> None:
        start = await self._start
        if start.build_id != build_id():
            raise BuildChanged
        settings = pickle.loads(start.settings)  # noqa: S301 - from the parent, over an inherited descriptor
        configure(settings.log.level, settings.log.format, node_id=settings.node_id)
        self._service = RouterService(settings, http=False)
        await self._service.run(lambda ready: self.ipc.send(ChildStarted(ready.nats_url)))

    def send_status(self) -> None:
        if self._service is not None:
            self.ipc.send(
                ChildStatus(self._service.readiness(), self._service.metrics.registry.snapshot())
            )

    def send_failure(self, exc: RouterError) -> None:
        setting = exc.setting if isinstance(exc, Misconfigured) else ""
        self.ipc.send(ChildFailed(setting, describe_causes(exc).removeprefix(f"{setting}: ")))

    def _on_frame(self, frame: FromParent) -> None:
        match frame:
            case StartChild():
                if not self._start.done():  # it is cancelled if SIGTERM came first
                    self._start.set_result(frame)
            case ReadStatus():
                self.send_status()

    def _on_parent_died(self) -> None:
        log.warning(events.PARENT_DIED)
        self._stop()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
