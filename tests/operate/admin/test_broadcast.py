"""One request to every instance: how long an instance that stands still is waited for, and when
nothing is left to wait for.
"""

import asyncio

from nats.aio.client import Client
from nats.aio.msg import Msg

from router.delivery.wire.connection import Connection
from router.operate.admin.broadcast import PING, QUIET_S, request_from_all
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.patient_client import connect_patiently

NO_PING = (
    "authorization { users: [{ user: u, password: p, permissions: { publish: { deny: "
    '["$SRV.>"] } } }] }'
)
LONG_S = 600.0  # longer than a test may take


async def serve_instance(nc: Client, subject: str, *, after_s: float = 0.0) -> None:
    """An instance that answers the PING and a request only after it stood still for so long."""

    async def answer(message: Msg) -> None:
        await asyncio.sleep(after_s)
        await nc.publish(message.reply, b'{"ok": true}')

    await nc.subscribe(PING, cb=answer)
    await nc.subscribe(subject, cb=answer)
    await nc.flush()


async def test_an_instance_that_stands_still_for_a_while_is_waited_for(
    nc: Client, connection: Connection, prefix: str
) -> None:
    await serve_instance(nc, prefix, after_s=2 * QUIET_S)
    heard = await request_from_all(connection, None, prefix, {}, LONG_S)
    assert (heard.successful, heard.instances, heard.missing) == ([{"ok": True}], 1, 0)


async def test_without_any_instance_a_request_to_all_ends_before_its_timeout(prefix: str) -> None:
    """The server says so: this test would take as long as its timeout."""
    with Broker() as broker:
        async with connected(broker.url) as connection:
            heard = await request_from_all(connection, None, prefix, {}, LONG_S)
    assert (heard.answers, heard.instances, heard.missing) == ([], 0, 0)


async def test_a_caller_that_may_not_ping_gets_its_answer_before_the_timeout(prefix: str) -> None:
    broker = Broker(NO_PING).start()
    url = broker.url.replace("//", "//u:p@")
    try:
        nc = await connect_patiently(url)
        await serve_instance(nc, prefix)
        async with connected(url) as connection:
            heard = await request_from_all(connection, None, prefix, {}, LONG_S)
        await nc.close()
    finally:
        broker.remove()
    assert (heard.successful, heard.instances, heard.missing) == ([{"ok": True}], 0, 0)
