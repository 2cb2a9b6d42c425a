"""Inside one process of a fleet: `python -m router.fleet.worker FD`, a whole RouterService without a port of its own.

begin    the parent sends the settings; Started when requests are answered
ask      Report: snapshots on the loop, a fraction of a millisecond
end      SIGTERM, or the line is lost because the parent is gone: drain, the last Report, status 0
         told again it drains on: who hurries is the parent, by killing
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import sys
from collections.abc import Callable

import msgspec

from router.app.service import RouterService
from router.errors import Misconfigured, RouterError, describe_causes
from router.fleet.build import CodeChanged, build
from router.fleet.line import Ask, Begin, FromParent, Line, Refused, Report, Started
from router.observability import configure, events, logs
from router.observability.tracing_setup import export_spans

log = logs.logger("router.fleet.worker")  # not `__main__`

OK, FAILED, MISCONFIGURED = 0, 1, 2


def main(descriptor: int) -> int:
    for number in (signal.SIGINT, signal.SIGHUP):  # the terminal's Ctrl-C and everybody's reload are the parent's to hear
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as end, export_spans():
        end.set_inheritable(False)
        return asyncio.run(_lived(end))


async def _lived(end: socket.socket) -> int:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    work, telling = asyncio.create_task(_worked(end, told.set)), asyncio.create_task(told.wait())
    await asyncio.wait({work, telling}, return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()
    work.cancel()  # once, however often we are told: a second cancellation would cut the drain short
    await asyncio.wait({work})
    return OK if work.cancelled() else work.result()


async def _worked(end: socket.socket, tell: Callable[[], None]) -> int:
    worker = _Worker(tell)
    await worker.line.open(end)
    try:
        await worker.serve()
    except RouterError as exc:
        worker.refuse(exc)
        return MISCONFIGURED if isinstance(exc, Misconfigured) else FAILED
    finally:
        worker.report()
        await worker.line.hang_up()
    return OK


class _Worker:
    """The parent's questions, and the service that answers them."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.line = Line(msgspec.msgpack.Decoder(FromParent), self._hear, self._alone)
        self._end = end
        self._begin: asyncio.Future[Begin] = asyncio.get_running_loop().create_future()
        self._service: RouterService | None = None

    async def serve(self) -> None:
        begin = await self._begin
        if begin.build != build():
            raise CodeChanged
        settings = pickle.loads(begin.settings)  # noqa: S301 - from our own parent, over an inherited descriptor
        configure(settings.log.level, settings.log.format, node_id=settings.node_id)
        self._service = RouterService(settings, http=False)
        await self._service.run(lambda ready: self.line.say(Started(ready.nats_url)))

    def report(self) -> None:
        if self._service is not None:
            self.line.say(Report(self._service.readiness(), self._service.metrics.registry.snapshot()))

    def refuse(self, exc: RouterError) -> None:
        setting = exc.setting if isinstance(exc, Misconfigured) else ""
        self.line.say(Refused(setting, describe_causes(exc).removeprefix(f"{setting}: ")))

    def _hear(self, said: FromParent) -> None:
        match said:
            case Begin():
                if not self._begin.done():  # told to end before it came
                    self._begin.set_result(said)
            case Ask():
                self.report()

    def _alone(self) -> None:
        log.warning(events.PARENT_DIED)
        self._end()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
