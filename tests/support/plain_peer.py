"""A server that speaks plain NATS or PostgreSQL where it is asked for TLS, and records every byte
that it is sent.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

INFO = {
    "server_id": "FAKE",
    "version": "2.15.1",
    "headers": True,
    "max_payload": 1_048_576,
    "auth_required": True,
    "nonce": "bm9uY2U",
}


class PlainPeer:
    """`said`: every byte that clients sent; `asked`: how many connected."""

    def __init__(self, **info: object) -> None:
        self._info = {**INFO, **info}
        self.said = b""
        self.asked = 0
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        writer.write(b"INFO " + json.dumps(self._info).encode() + b"\r\n")
        try:
            while data := await reader.read(65_536):
                self.said += data
                if b"PING\r\n" in data:
                    writer.write(b"PONG\r\n")
        except (ConnectionError, asyncio.CancelledError):
            # a connection still open at the test's end
            pass
        finally:
            writer.close()


class PlainDatabase(PlainPeer):
    """PostgreSQL's first words, without TLS: it asks for the password in the clear."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        try:
            while data := await reader.read(65_536):
                self.said += data
                is_tls_wanted = data[4:8] == (80877103).to_bytes(4, "big")
                writer.write(
                    b"N"
                    if is_tls_wanted
                    else b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big")
                )
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def a_plain_peer(**info: object) -> AbstractAsyncContextManager[PlainPeer]:
    return _listening(PlainPeer(**info))


def a_plain_database() -> AbstractAsyncContextManager[PlainPeer]:
    return _listening(PlainDatabase())


@asynccontextmanager
async def _listening(peer: PlainPeer) -> AsyncIterator[PlainPeer]:
    server = await asyncio.start_server(peer.answer, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
