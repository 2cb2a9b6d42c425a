"""Signals of a serving process, and the supervision tree that also holds an embedded broker.

first SIGTERM or SIGINT    cancel the work: it drains, then the status is 0
the second                 cancel the drain as well: the status is 130
SIGHUP                     reload if the process can; otherwise the same as the first SIGTERM, and
                           logged
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from router.process.embedded import EmbeddedServer
from router.process.memory import give_large_blocks_back
from router.process.observability import events, logs
from router.process.supervision import Child, Intensity, Supervisor, supervise
from router.shell.exit_codes import INTERRUPTED, OK

log = logs.logger(__name__)

LAST_CHANCE_S = 1.0


async def run_until_signal(
    work: Coroutine[Any, Any, None], *, reload: Callable[[], None] | None = None
) -> int:
    """Run `work` until it ends or a signal ends it; return the exit status."""
    give_large_blocks_back()
    task = asyncio.ensure_future(work)
    signals = SignalHandler(task)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.on_signal)
    # under `nohup` SIGHUP stays ignored
    if reload is not None or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, reload or signals.on_reload)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    if signals.times:
        _exit_on_late_signals()
    return INTERRUPTED if signals.times > 1 else OK


def _exit_on_late_signals() -> None:
    """Exit with 130 at once on a signal that comes while Python ends: asyncio gives the signals
    back to the system, which would kill.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    # one that comes between the two handlers waits, where it would kill
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


class SignalHandler:
    """Counts the signals, and drains or cancels the work."""

    def __init__(self, task: asyncio.Future[None]) -> None:
        self._task = task
        self._is_draining = False
        self.times = 0

    def on_reload(self) -> None:
        """Drain: one process cannot reload. It never counts as a second signal, because a closing
        terminal sends SIGHUP, too.
        """
        log.warning(
            events.RELOAD_REFUSED,
            error="a reload needs --processes 2 or more: this process drains and ends",
        )
        self._drain()

    def on_signal(self) -> None:
        self.times += 1
        if self.times == 1:
            self._drain()
            return
        self._task.cancel()
        if self.times == 2:
            # The loop would wait for whatever still runs after that. The store is safe, so leave.
            asyncio.get_running_loop().call_later(LAST_CHANCE_S, os._exit, INTERRUPTED)

    def _drain(self) -> None:
        if not self._is_draining:
            self._is_draining = True
            self._task.cancel()


async def serve_on_embedded_broker(
    server: EmbeddedServer,
    serve: Callable[[], Awaitable[None]],
    stop_s: float,
    beside: Sequence[Child] = (),
) -> None:
    """Serve on an embedded broker: started first, kept alive, stopped last. `stop_s`: how long
    serving may take to end.

    `beside`: children that run beside it.
    """
    await server.start()
    try:
        await supervise(_build_tree(server, serve, stop_s, beside))
    finally:
        await server.stop()


def _build_tree(
    server: EmbeddedServer,
    serve: Callable[[], Awaitable[None]],
    stop_s: float,
    beside: Sequence[Child],
) -> Supervisor:
    """The broker is restarted if it ends; a router that ends, ends the process, as it does without
    an embedded broker.
    """
    broker = Supervisor(
        "broker", (Child("nats-server", server.run, shutdown_s=12.0),), intensity=Intensity(5, 30)
    )
    router = Child("service", serve, shutdown_s=stop_s)
    return Supervisor("serve", (broker, router, *beside), intensity=Intensity(restarts=0))
