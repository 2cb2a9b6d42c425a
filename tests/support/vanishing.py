"""A way to a server that can be cut without either end hearing of it, as by a machine that
vanishes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.broker import Broker
from tests.support.postgres import Postgres


class Path:
    """The way to a server, which can be cut without either end hearing of it."""

    def __init__(self) -> None:
        self.is_cut = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        """Of a nats-server."""
        return f"nats://127.0.0.1:{self.port}"

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From one end to the other; once the path is cut nothing is read any more, and nothing is
        closed.
        """
        while not self.is_cut.is_set():
            reading, cut = (
                asyncio.ensure_future(reader.read(65_536)),
                asyncio.ensure_future(self.is_cut.wait()),
            )
            done, _ = await asyncio.wait((reading, cut), return_when=asyncio.FIRST_COMPLETED)
            cut.cancel()
            if reading not in done or not (data := reading.result()):
                reading.cancel()
                return
            writer.write(data)


@asynccontextmanager
async def a_path_to(peer: Broker | Postgres) -> AsyncIterator[Path]:
    path = Path()
    tasks: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs_in, theirs_out = await asyncio.open_connection("127.0.0.1", peer.port)
        writers.extend((writer, theirs_out))
        tasks.extend(
            (
                asyncio.create_task(path.forward(reader, theirs_out)),
                asyncio.create_task(path.forward(theirs_in, writer)),
            )
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    path.port = server.sockets[0].getsockname()[1]
    try:
        yield path
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        for task in tasks:
            task.cancel()
