"""A pooler as strict as PgBouncer in front of a database: it refuses a startup parameter that it
cannot keep.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

NO_TLS = (80877103, 80877104)  # requests for TLS and GSSAPI, both answered with N
KEPT = {
    "user",
    "database",
    "client_encoding",
    "datestyle",
    "timezone",
    "standard_conforming_strings",
    "application_name",
}


@asynccontextmanager
async def a_pooler(dsn: str) -> AsyncIterator[str]:
    """The connection string of the same database behind it."""
    upstream = urlsplit(dsn)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            packet = await _read_startup(reader, writer)
            if refused := sorted(set(_parameters(packet)) - KEPT):
                writer.write(_refusal(refused[0]))
            else:
                back, forth = await asyncio.open_connection(upstream.hostname, upstream.port)
                forth.write(packet)
                await asyncio.gather(_copy(reader, forth), _copy(back, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield urlunsplit(upstream._replace(netloc=f"{upstream.username}@127.0.0.1:{port}"))
    finally:
        server.close()


async def _read_startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    while True:
        head = await reader.readexactly(8)
        length, code = struct.unpack("!II", head)
        packet = head + await reader.readexactly(length - 8)
        if code not in NO_TLS:
            return packet
        writer.write(b"N")


def _parameters(packet: bytes) -> list[str]:
    return [name.decode() for name in packet[8:].rstrip(b"\0").split(b"\0")[::2]]


def _refusal(name: str) -> bytes:
    fields = f"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: {name}\0\0".encode()
    return b"E" + struct.pack("!I", len(fields) + 4) + fields


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
