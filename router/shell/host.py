"""The frame of a process: what it opens first and closes last, and what is seen of it meanwhile.

    start   hold    the connections open, in order; from now on a watch looks whether one is stuck
    life    run     the tree; once all is there, the caller is told that the process is ready
            pages   /healthz, /readyz and /metrics: a child of that tree
    end     run     the tree stops, its last child first: consumers drain
            hold    the watch ends; the connections close, the last one first, and nothing logs that

                connections                is ready                      pages
    router      main, workers, providers   when all checks hold          or of the fleet's parent
    fleet       none                       when all its processes are    yes
    inbox       one                        when its durable is there     yes
    relay       one                        when its pages are there      yes
    agent       one                        before its tree begins        where a port is given
    worker      one                        before its tree begins        none
    extensions  one; they have no tree     when all is subscribed        none

A consumer of the bus stands on the connection of its program, so it is watched alone; the console
serves pages of its own, and its connection is a child of its tree.

Signals come from outside: who runs a process (`shell.signals` for commands, `sdk.signals` for
programs of users) cancels it, and that is the beginning of its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Protocol

from msgspec import Struct

from router.delivery.wire.connection import Connection
from router.delivery.wire.stuck import ConnectionWatchdog, watch_connections
from router.process.observability import HttpServer, Readiness, events, logs
from router.process.observability.http import MetricSource, ReadPage, read_no_page
from router.process.supervision import Child, Supervisor, supervise

log = logs.logger(__name__)

Told = Callable[[], Awaitable[None]]


class Connect(Protocol):
    """Opens a connection that tells when it is lost, and when it is back."""

    def __call__(self, *, on_lost: Told, on_back: Told) -> Awaitable[Connection]: ...


class HeldConnection(Struct):
    """A connection from its opening to its close.

    `name`: in log lines, where a process has several of them or many processes log to one place.
    `is_logged`: write these lines. `on_lost`, `on_back`: what the process does besides.
    `flushes`: at the end, wait until the server has confirmed what was sent last.
    """

    connect: Connect
    name: str = ""
    on_lost: Callable[[], None] | None = None
    on_back: Callable[[], None] | None = None
    flushes: bool = False
    is_logged: bool = True
    # The process closes it itself: that is no loss.
    is_closing: bool = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        """Open it for the block. Its close never fails: the server may hang, or it be closed."""
        connection = await self.connect(on_lost=self._on_disconnected, on_back=self._on_reconnected)
        try:
            yield connection
        finally:
            self.is_closing = True
            try:
                if self.flushes:
                    with suppress(Exception):
                        await connection.flush()
            finally:
                with suppress(Exception):
                    await connection.close()

    async def _on_disconnected(self) -> None:
        if not self.is_closing:
            self._log(log.warning, events.BROKER_DISCONNECTED)
            if self.on_lost is not None:
                self.on_lost()

    async def _on_reconnected(self) -> None:
        self._log(log.info, events.BROKER_RECONNECTED)
        if self.on_back is not None:
            self.on_back()

    def _log(self, write: Callable[..., object], event: str) -> None:
        if self.is_logged:
            write(event, **({"connection": self.name} if self.name else {}))


class ProcessHost:
    """The frame of one process. `url`: the address of its pages, once they are served."""

    def __init__(self) -> None:
        self.watchdog: ConnectionWatchdog | None = None
        self.url = ""
        self._has_pages = False

    @asynccontextmanager
    async def hold(self, *held: HeldConnection) -> AsyncIterator[tuple[Connection, ...]]:
        """Open them for the block, and watch them.

        Raises BrokerUnavailable if one cannot be opened, ConnectionStuck out of the block.
        """
        async with AsyncExitStack() as opened:
            connections = tuple(
                [await opened.enter_async_context(connection.open()) for connection in held]
            )
            try:
                async with watch_connections(*connections) as self.watchdog:
                    yield connections
            finally:
                for connection in held:
                    connection.is_closing = True

    async def run(
        self,
        tree: Supervisor,
        on_ready: Callable[[], None] = lambda: None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """Run the tree until it is cancelled.

        `on_ready` is called once, as soon as its pages are served and `is_ready` says so.
        Raises SupervisionFailed, and Misconfigured if a child raises it.
        """
        telling = asyncio.create_task(self._tell(on_ready, is_ready))
        try:
            await supervise(tree)
        finally:
            telling.cancel()

    async def _tell(self, on_ready: Callable[[], None], is_ready: Callable[[], bool]) -> None:
        # Many causes, once.
        while not (bool(self.url) is self._has_pages and is_ready()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        on_ready()

    def pages(
        self,
        host: str,
        port: int,
        source: MetricSource,
        readiness: Readiness,
        read_page: ReadPage = read_no_page,
    ) -> Child:
        """The pages as a child, to be the first of the tree: they are closed last.

        `port` 0 = any free one. /healthz is 503 once a connection is stuck, until all is drained.
        """
        self._has_pages = True
        server = HttpServer(host, port, source, readiness, read_page, stuck=self._read_stuck_cause)
        return Child("http", lambda: server.run(lambda bound: self._on_bound(host, bound)))

    def _on_bound(self, host: str, port: int) -> None:
        self.url = f"http://{host}:{port}"

    def _read_stuck_cause(self) -> str | None:
        return self.watchdog.cause if self.watchdog is not None else None
