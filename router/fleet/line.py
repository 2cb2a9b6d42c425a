"""What a parent and its worker say to each other, over a socket pair that the worker inherits.

parent    Begin    the settings, once          Ask       how do you stand?
worker    Started  it answers requests         Report    an answer, or its last word
          Refused  it ends, and says why

A frame is a length of four bytes and MessagePack. When one of the two dies the kernel closes the pair, which the other
hears at once, on every system: so a parent that is killed leaves no worker behind, and no port is opened for any of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from router.observability import ReadinessCheck
from router.observability.exposition import Snapshot

LENGTH = 4
LAST_WORD_S = 1.0  # a parent that does not listen is not waited for any longer


class Begin(Struct, tag=True):
    """`settings`: pickled, for secrets hide themselves from every other encoding; it comes from our own parent alone.

    `build`: whose settings they are; a worker of another build does not unpickle them.
    """

    settings: bytes
    build: str = ""


class Ask(Struct, tag=True):
    """Answered by one Report, in the order of asking."""


class Started(Struct, tag=True):
    """Requests are answered. `nats_url`: by which server."""

    nats_url: str


class Report(Struct, tag=True):
    """How it stands, and everything that it counted."""

    checks: Mapping[str, ReadinessCheck]
    families: Snapshot


class Refused(Struct, tag=True):
    """Why it ends. `setting`: what is to be mended, where no restart would help; else empty."""

    setting: str
    text: str


FromParent = Begin | Ask
FromWorker = Started | Report | Refused
Heard = TypeVar("Heard")


class Line(asyncio.Protocol, Generic[Heard]):
    """One end. `hear` is called for each frame, `lost` once, when the other end is gone; neither may wait."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[Heard], hear: Callable[[Heard], None], lost: Callable[[], None]) -> None:
        self._decoder = decoder
        self._hear = hear
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._closed = asyncio.Event()

    async def open(self, end: socket.socket) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    def say(self, what: FromParent | FromWorker) -> None:
        """Nothing happens when nobody is there any more."""
        if self._transport is not None:
            frame = msgspec.msgpack.encode(what)
            self._transport.write(len(frame).to_bytes(LENGTH) + frame)

    async def hang_up(self) -> None:
        """Close once all is said."""
        self._lost = _nobody
        if self._transport is not None:
            self._transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD_S):
                    await self._closed.wait()

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------

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
            self._hear(self._decoder.decode(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._closed.set()
        self._lost()


def _nobody() -> None:
    """We hung up ourselves."""
