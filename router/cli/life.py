"""How a serving process lives and ends: signals, and the tree that also holds an embedded broker.

first SIGTERM or SIGINT    cancel the work: it drains, then the status is 0
the second                 cancel it again: nobody waits any more, the status is 130
SIGHUP                     where there is something to reload: reload it; else as the first SIGTERM, and logged
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from router.cli.allocator import give_large_blocks_back
from router.cli.ends import INTERRUPTED, OK
from router.embedded import EmbeddedServer
from router.observability import events, logs
from router.supervision import Child, Intensity, Supervisor, supervise

log = logs.logger(__name__)

LAST_CHANCE_S = 1.0


async def until_told(work: Coroutine[Any, Any, None], *, reload: Callable[[], None] | None = None) -> int:
    """Run `work` until it ends or a signal ends it; the status to exit with."""
    give_large_blocks_back()
    task = asyncio.ensure_future(work)
    told = _Told(task)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.once_more)
    if reload is not None or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` means what it says
        loop.add_signal_handler(signal.SIGHUP, reload or told.to_reload)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return INTERRUPTED if told.times > 1 else OK


class _Told:
    """Counts the signals, and acts on each."""

    def __init__(self, task: asyncio.Future[None]) -> None:
        self._task = task
        self._is_draining = False
        self.times = 0

    def to_reload(self) -> None:
        """There is nothing that could stay while something new starts. It never hurries: a terminal that closes sends it as well."""
        log.warning(events.RELOAD_REFUSED, error="a reload needs --processes 2 or more: this process drains and ends")
        self._drain()

    def once_more(self) -> None:
        self.times += 1
        if self.times == 1:
            self._drain()
            return
        self._task.cancel()
        if self.times == 2:
            # Whatever still holds on after that would be waited for by the loop: the store is safe, so leave.
            asyncio.get_running_loop().call_later(LAST_CHANCE_S, os._exit, INTERRUPTED)

    def _drain(self) -> None:
        if not self._is_draining:
            self._is_draining = True
            self._task.cancel()


async def on_embedded_broker(server: EmbeddedServer, serve: Callable[[], Awaitable[None]], stop_s: float) -> None:
    """Serve on a broker of our own: started first, kept alive, stopped last. `stop_s`: what serving may take to end."""
    await server.start()
    try:
        await supervise(_tree(server, serve, stop_s))
    finally:
        await server.stop()


def _tree(server: EmbeddedServer, serve: Callable[[], Awaitable[None]], stop_s: float) -> Supervisor:
    """The broker comes back by itself; a router that ends, ends the process, as it does without a broker of its own."""
    broker = Supervisor("broker", (Child("nats-server", server.run, shutdown_s=12.0),), intensity=Intensity(5, 30))
    router = Child("service", serve, shutdown_s=stop_s)
    return Supervisor("serve", (broker, router), intensity=Intensity(restarts=0))
