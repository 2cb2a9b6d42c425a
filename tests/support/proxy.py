"""A TCP proxy on the way to the server, in which a network can go wrong: cut, silent, slow, or torn
off in the middle of a frame.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

CHUNK = 65_536
TO_SERVER = "to server"
FROM_SERVER = "from server"
BOTH = (TO_SERVER, FROM_SERVER)

# SO_LINGER: what is buffered is thrown away, and RST is sent
_RESET_NOT_FIN = struct.pack("ii", 1, 0)


class Proxy:
    """From 127.0.0.1, any free port, to another port there."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._is_cut = False
        self._open = {way: asyncio.Event() for way in BOTH}
        self._delay_s = 0.0
        # bytes that still come from the server, before the connection ends; None: all
        self._left: int | None = None
        self.torn = asyncio.Event()

    async def start(self) -> "Proxy":
        for way in BOTH:
            self._open[way].set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK)
        return self

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Every connection is reset, and new ones are as soon as they are made."""
        self._is_cut = True
        self.reset()

    def silence(self, *ways: str) -> None:
        """Connections stay, and nothing passes these ways (see BOTH): half open, as behind a
        firewall that forgot them.
        """
        for way in ways:
            self._open[way].clear()

    def slow(self, seconds: float) -> None:
        """Everything comes so much later, both ways."""
        self._delay_s = seconds

    def tear(self, after: int) -> None:
        """After so many more bytes from the server its connection ends, wherever in a frame that
        is; `torn` is set then.
        """
        self._left = after
        self.torn.clear()

    def mend(self) -> None:
        """All is well again; what was held back passes."""
        self._is_cut = False
        self._delay_s = 0.0
        self._left = None
        for way in BOTH:
            self._open[way].set()

    def reset(self) -> None:
        for link in list(self._links):
            link.reset()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            _reset(writer)
            return
        try:
            upstream, to_server = await asyncio.open_connection(
                "127.0.0.1", self._target, limit=CHUNK
            )
        except OSError:
            _reset(writer)
            return
        link = _Link(writer, to_server)
        self._links.add(link)
        try:
            await link.run(
                self._pump(reader, to_server, TO_SERVER, link),
                self._pump(upstream, writer, FROM_SERVER, link),
            )
        finally:
            self._links.discard(link)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str, link: "_Link"
    ) -> None:
        """Chunks wait their turn in `line`, so that a delay holds back each of them and not the one
        after it twice.
        """
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=4)
        forwarding = asyncio.create_task(self._forward(line, writer, way, link))
        try:
            while chunk := await reader.read(CHUNK):
                await line.put((asyncio.get_running_loop().time(), chunk))
            await line.put((0.0, b""))
            await forwarding
        finally:
            forwarding.cancel()

    async def _forward(
        self,
        line: asyncio.Queue[tuple[float, bytes]],
        writer: asyncio.StreamWriter,
        way: str,
        link: "_Link",
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            came, chunk = await line.get()
            if not chunk:
                return
            if (wait := came + self._delay_s - loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._open[way].wait()
            if way == FROM_SERVER and self._left is not None:
                chunk, is_last = chunk[: self._left], self._left <= len(chunk)
                self._left = None if is_last else self._left - len(chunk)
                if is_last:
                    writer.write(chunk)
                    await writer.drain()
                    self.torn.set()
                    link.end()  # a FIN behind half a frame: a reset would throw the half away
                    return
            writer.write(chunk)
            await writer.drain()


class _Link:
    """One connection, both halves."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def run(self, *pumps: Awaitable[None]) -> None:
        self._tasks = tuple(asyncio.ensure_future(_quietly(pump)) for pump in pumps)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self.end()

    def end(self) -> None:
        self._leave(lambda writer: writer.close())

    def reset(self) -> None:
        self._leave(_reset)

    def _leave(self, how: Callable[[asyncio.StreamWriter], None]) -> None:
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            how(writer)


async def _quietly(pump: Awaitable[None]) -> None:
    with contextlib.suppress(OSError, asyncio.CancelledError):
        await pump


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_NOT_FIN)
    writer.transport.abort()
