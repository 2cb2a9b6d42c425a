"""The stream or the consumer is deleted while the router pulls: back by itself, or a clear 503;
never a silent stall.
"""

import asyncio
import json

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Inboxes, a_request, ask, is_ready, make_topology, read_page
from tests.support.waiting import until

REQUESTS = 50
# A pull request that meets the deletion halfway is lost without a word: only missed heartbeats
# tell.
HEARTBEAT_MS = 500
DELETED = ["consumer", "stream"]


@pytest.mark.parametrize("what", DELETED)
async def test_in_create_mode_it_comes_back_by_itself(
    nc: Client, nats_url: str, prefix: str, what: str
) -> None:
    """Story 12, `topology = create`: made again within seconds, and every request after that is
    answered.
    """
    settings = settings_for(nats_url, prefix, decide__heartbeat_ms=HEARTBEAT_MS)
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("before")))["ok"] is True
        await _delete(nc, settings, what)
        await until(lambda: _is_there(nc, settings), what=f"the {what} to be made again")
        await _is_every_request_answered(nc, settings, router)


@pytest.mark.parametrize("what", DELETED)
async def test_in_check_mode_it_says_so_and_waits(
    nc: Client, nats_url: str, prefix: str, what: str
) -> None:
    """`topology = check`: 503 with the cause, and the router makes nothing; once an operator makes
    it, the router goes on.
    """
    settings = settings_for(nats_url, prefix, topology="check", decide__heartbeat_ms=HEARTBEAT_MS)
    await make_topology(settings)
    async with a_router(settings) as router:
        await _delete(nc, settings, what)
        await until(lambda: _says_it_is_missing(router))
        assert not await _is_there(nc, settings)

        await make_topology(settings)
        await until(lambda: is_ready(router.ready.http))
        await _is_every_request_answered(nc, settings, router)


@pytest.mark.parametrize("mode", ["create", "check"])
@pytest.mark.parametrize("what", DELETED)
async def test_a_quick_exchange_is_noticed(
    nc: Client, nats_url: str, prefix: str, what: str, mode: str
) -> None:
    """An operator deletes it and makes it again before the router looks; the server will never
    serve the old pull request.
    """
    settings = settings_for(nats_url, prefix, topology=mode, decide__heartbeat_ms=HEARTBEAT_MS)
    await make_topology(settings)
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request("before")))["ok"] is True
        await _delete(nc, settings, what)
        await make_topology(settings)
        await _is_every_request_answered(nc, settings, router)


async def _delete(nc: Client, settings: Settings, what: str) -> None:
    stream = settings.streams.decide.name
    if what == "consumer":
        await nc.jsm().delete_consumer(stream, settings.decide.durable)
    else:
        await nc.jsm().delete_stream(stream)


async def _is_there(nc: Client, settings: Settings) -> bool:
    try:
        await nc.jsm().consumer_info(settings.streams.decide.name, settings.decide.durable)
    except Exception:
        return False
    return True


async def _says_it_is_missing(router: Running) -> bool:
    status, text = await read_page(router.ready.http, "/readyz")
    check = json.loads(text)["checks"][router.settings.decide.durable]
    return status == 503 and not check["ok"] and "missing" in check["detail"]


async def _is_every_request_answered(nc: Client, settings: Settings, router: Running) -> None:
    """With an id and without, at once: inboxes are joined with answers though the sequences began
    again.
    """
    with_id = await Inboxes.under(nc, "with-id")
    for n in range(REQUESTS):
        await with_id.publish(nc, settings, n, a_request(f"after-{n}"))
    plain = asyncio.gather(*(ask(nc, settings, a_request(f"plain-{n}")) for n in range(REQUESTS)))
    await until(lambda: len(with_id.heard) >= REQUESTS, what="every request to be answered")
    assert all(answer["ok"] for answer in await plain)
    await until(lambda: is_ready(router.ready.http))
