"""A program as our own child process, and what it and its parent say to each other.

`die_with` and `stop_process`: it ends with us, and it is asked to end before it is killed.

`Ipc` is one end of a socket pair between the two: frames of MessagePack, each with its length
before it. When either process dies the kernel closes the pair, and the other one notices at once,
on every system: so a parent that is killed leaves no child behind, and none of this needs an open
port.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import msgspec
from msgspec import Struct

_PR_SET_PDEATHSIG = 1
LENGTH = 4
READ_SIZE = 65536
CLOSE_TIMEOUT_S = 1.0  # the child waits no longer for a parent that does not read

Received = TypeVar("Received")


def die_with(parent: int) -> Callable[[], None]:
    """For `preexec_fn`: on Linux the kernel ends the child when we are killed, so a crashed router
    leaves nothing behind.
    """

    def ask_the_kernel() -> None:  # in the child, before its image: no signal may be sent from here
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)  # we were gone before the kernel was asked

    return ask_the_kernel


async def stop_process(process: Process, within_s: float) -> None:
    """Ask it to end by SIGTERM, and kill it if it runs on for so long."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class Ipc(asyncio.Protocol, Generic[Received]):
    """One end. `on_frame` is called for each frame, `on_closed` once when the other end closes;
    neither may wait.
    """

    def __init__(
        self,
        decoder: msgspec.msgpack.Decoder[Received],
        on_frame: Callable[[Received], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._decoder = decoder
        self._on_frame = on_frame
        self._on_closed = on_closed
        self._buffer = bytearray()
        self._end: socket.socket | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._closed = asyncio.Event()

    async def open(self, end: socket.socket) -> None:
        self._end = end
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    def send(self, frame: Struct) -> None:
        """Does nothing when the other end is closed."""
        if self._transport is not None:
            data = msgspec.msgpack.encode(frame)
            self._transport.write(len(data).to_bytes(LENGTH) + data)

    async def close(self) -> None:
        """Close this end once everything is sent; `on_closed` is not called."""
        self._on_closed = _do_nothing
        if self._transport is not None:
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._closed.wait()

    # -- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= LENGTH:
            end = LENGTH + int.from_bytes(self._buffer[:LENGTH])
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[LENGTH:end])
            del self._buffer[:end]
            self._on_frame(self._decoder.decode(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # of a write: asyncio leaves unread what the other end sent before it closed
        if isinstance(exc, OSError):
            self._read_rest()
        self._closed.set()
        self._on_closed()

    def _read_rest(self) -> None:
        # nothing is left, or the kernel tells of the close once more
        with contextlib.suppress(OSError):
            while self._end is not None and (data := self._end.recv(READ_SIZE)):
                self.data_received(data)


def _do_nothing() -> None:
    """This end closed the pair itself."""
