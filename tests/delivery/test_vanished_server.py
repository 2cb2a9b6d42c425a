"""A server that vanishes without a word takes nothing of what was written: the connection goes to another one all the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from router.delivery.connection import connect
from tests.support.broker import Broker
from tests.support.waiting import until

PINGS = {"ping_interval": 0.2, "max_outstanding_pings": 2, "reconnect_time_wait": 0.05, "dont_randomize": True}
UNSENT = 64  # MiB: more than the sockets of one machine hold between them


class Path:
    """The way to a server, which can be cut without either end hearing of it."""

    def __init__(self) -> None:
        self.is_cut = asyncio.Event()
        self.url = ""

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From one end to the other; once the path is cut nothing is read any more, and nothing is closed."""
        while not self.is_cut.is_set():
            reading, cut = asyncio.ensure_future(reader.read(65_536)), asyncio.ensure_future(self.is_cut.wait())
            done, _ = await asyncio.wait((reading, cut), return_when=asyncio.FIRST_COMPLETED)
            cut.cancel()
            if reading not in done or not (data := reading.result()):
                reading.cancel()
                return
            writer.write(data)


@asynccontextmanager
async def a_path_to(broker: Broker) -> AsyncIterator[Path]:
    path, tasks, writers = Path(), [], []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs_in, theirs_out = await asyncio.open_connection("127.0.0.1", broker.port)
        writers.extend((writer, theirs_out))
        tasks.extend((asyncio.create_task(path.forward(reader, theirs_out)), asyncio.create_task(path.forward(theirs_in, writer))))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    path.url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield path
    finally:
        for one in writers:
            one.transport.abort()
        server.close()
        for task in tasks:
            task.cancel()


async def test_unsent_output_does_not_keep_a_connection_on_a_server_that_is_gone(broker: Broker) -> None:
    """The transport waits for the peer to take what was written, which it never does: its time is bounded, then it is cut off."""
    async with a_path_to(broker) as path:
        connection = await connect({"servers": [path.url, broker.url], **PINGS})
        try:
            path.is_cut.set()
            for _ in range(UNSENT):
                connection.publish_nowait("into.the.void", bytes(1024 * 1024 - 64))
            await until(lambda: connection.reconnect_count == 1)
            await connection.flush()
        finally:
            await connection.close()
