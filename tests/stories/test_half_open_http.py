"""The operators' port while one client holds connections open: probes are answered, and the broker
is found again.
"""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.service import RouterProcess, names_for, settings_for
from tests.support.stories import a_request, ask, read_page
from tests.support.waiting import until

FILES, HELD = 256, 300


async def test_more_half_open_connections_than_files_keep_no_probe_out(
    nc: Client, broker: Broker, prefix: str
) -> None:
    with RouterProcess(names_for(broker.url, prefix)) as router:
        resource.prlimit(router.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        where = router.ready["http"]
        with ExitStack() as stack:
            for connection in _half_open(where):
                stack.enter_context(connection)
            for path in ("/healthz", "/readyz", "/metrics"):
                assert (await read_page(where, path))[0] == 200
            broker.kill()
            broker.start()
            await until(lambda: nc.is_connected)
            await until(lambda: _is_ready(where))
            assert (await ask(nc, settings_for(broker.url, prefix), a_request("after")))[
                "ok"
            ] is True


def _half_open(where: str) -> Iterator[socket.socket]:
    host, port = where.removeprefix("http://").split(":")
    for _ in range(HELD):
        connection = socket.create_connection((host, int(port)), timeout=60)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        yield connection


async def _is_ready(where: str) -> bool:
    return (await read_page(where, "/readyz"))[0] == 200
