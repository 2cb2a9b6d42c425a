"""What a response writes in one turn of the loop leaves together.

uvicorn writes a response's head, each part of its body and its end by themselves, and each is a call
of the system. Several events of a stream often come in one turn, too.

    write, write, write ──> the turn's end ──> one write of the transport
                       └──> MAX_HELD_BYTES ──> at once, so that the transport can say that it is full
"""

from __future__ import annotations

import asyncio
from typing import Any

MAX_HELD_BYTES = 64 * 1024


class TurnTransport(asyncio.Transport):
    """A transport before another one."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data:
            return
        if not self._held:
            self._loop.call_soon(self._write_held)
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size >= MAX_HELD_BYTES:
            self._write_held()

    def close(self) -> None:
        self._write_held()
        self._transport.close()

    def abort(self) -> None:
        self._held, self._size = [], 0
        self._transport.abort()

    def _write_held(self) -> None:
        if not self._held:
            return
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held, self._size = [], 0
        self._transport.write(data)

    # -- The other one's.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
