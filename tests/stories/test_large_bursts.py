"""Large messages in bursts, while the router stands still: the server must hold them, and may not
disconnect a client for it.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS
from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.router_streams import AlertRecorder
from tests.support.service import RouterProcess, names_for, settings_for
from tests.support.stories import Inboxes, a_request, ask, has_metric, read_metric
from tests.support.waiting import until

CONF = Path(__file__).parents[2] / "deploy" / "nats" / "nats-server.conf"
SOCKETS, EACH = 6, 6  # 36 messages
MANY = 12
SLOW = "Slow Consumer"
MIB = 1024 * 1024
# the router stands still for as long as a busy machine needs for a burst
PATIENT = 'write_deadline: "120s"'


def limit(name: str) -> int:
    """A size in the configuration that is shipped, in bytes; the server's default where it says
    nothing.
    """
    found = re.search(rf"^{name}: (\d+)MB", CONF.read_text(), re.MULTILINE)
    return int(found[1]) * MIB if found else 64 * MIB


@pytest.fixture
def broker() -> Iterator[Broker]:
    """With the limits that are shipped."""
    with Broker(
        f"max_pending: {limit('max_pending')}", PATIENT, max_payload=limit("max_payload")
    ) as broker:
        yield broker


async def test_a_burst_of_the_largest_bodies_costs_no_client_its_connection(
    nc: Client, broker: Broker, prefix: str
) -> None:
    """36 of them from six sockets, as large as the server takes, into a router that stands still;
    then a quiet tenant asks.
    """
    async with _router(broker, prefix) as (router, settings):
        async with _still(router), _sockets(broker) as sockets:
            await _burst(sockets, settings.decide.subject, bytes(limit("max_payload") - 100))
        assert (await ask(nc, settings, a_request("quiet")))["ok"] is True
        assert await read_metric(router.ready["http"], "router_nats_reconnects_total") == 0
        assert broker.logged(SLOW) == 0


async def test_the_largest_legal_bodies_are_all_answered(
    nc: Client, broker: Broker, prefix: str
) -> None:
    """They are pulled by bytes: more of them than fit into one request for messages."""
    async with _router(broker, prefix) as (router, settings):
        body = a_request("large", payload="x" * (settings.max_payload_bytes - 1000))
        inboxes = await Inboxes.under(nc, "large")
        async with _still(router), _sockets(broker) as sockets:
            for number in range(MANY):
                await inboxes.publish(
                    sockets[number % SOCKETS],
                    settings,
                    number,
                    body.replace(b"r-large", b"r-%d" % number),
                )
            await asyncio.gather(*(socket.flush() for socket in sockets))
        await until(lambda: len(inboxes) == MANY, within_s=20)
        assert all(json.loads(inboxes.answers(number)[0])["ok"] for number in range(MANY))
        assert broker.logged(SLOW) == 0


async def test_what_is_poured_into_heartbeats_cuts_off_those_who_hear_them_alone(
    prefix: str,
) -> None:
    """More than the server holds for a client. The consumers' own connection stays."""
    with Broker(f"max_pending: {16 * MIB}", max_payload=limit("max_payload")) as broker:
        async with (
            await connect_patiently(broker.url) as nc,
            _router(broker, prefix) as (router, settings),
            _sockets(broker) as sockets,
        ):
            lost = await AlertRecorder.heard_on(nc)
            async with _still(router):
                await _burst(sockets, HEARTBEAT_SUBJECTS[0], bytes(MIB))
            assert (await ask(nc, settings, a_request("plain")))["ok"] is True
            await until(lambda: has_metric(router.ready["http"], "router_nats_reconnects_total", 1))
            assert (broker.logged(SLOW), lost.causes("critical")) == (1, [])


@asynccontextmanager
async def _router(broker: Broker, prefix: str) -> AsyncIterator[tuple[RouterProcess, Settings]]:
    """A router as a process of its own."""
    with RouterProcess(names_for(broker.url, prefix)) as router:
        yield router, settings_for(broker.url, prefix)


@asynccontextmanager
async def _still(router: RouterProcess) -> AsyncIterator[None]:
    """The process stands still as long as the block lasts."""
    router.pause()
    try:
        yield
    finally:
        router.unpause()


@asynccontextmanager
async def _sockets(broker: Broker) -> AsyncIterator[list[Client]]:
    sockets = [await connect_patiently(broker.url) for _ in range(SOCKETS)]
    try:
        yield sockets
    finally:
        for socket in sockets:
            await socket.close()


async def _burst(sockets: list[Client], subject: str, body: bytes) -> None:
    """All of them at once; when this returns the server has them."""

    async def send(socket: Client) -> None:
        for _ in range(EACH):
            await socket.publish(subject, body)
        await socket.flush()

    await asyncio.gather(*(send(socket) for socket in sockets))
