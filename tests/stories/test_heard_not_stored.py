"""The server has no room for requests, and says nothing, because their stream is `no_ack`.

What the router hears and does not find in the stream reaches readiness, an alert, the log and the
requester.
"""

import nats
from nats.aio.client import Client
from nats.errors import TimeoutError as NoAnswer

from router.config import Settings
from tests.support.broker import Broker
from tests.support.full_stores import full_store
from tests.support.observability import capture_log
from tests.support.router_streams import AlertRecorder, read_assignments
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, is_ready, read_page
from tests.support.waiting import until

STORE_LIMIT = 64 * 1024 * 1024
PREFIX = "heard"
Json = dict[str, object]


def _build_settings(url: str) -> Settings:
    """Streams and buckets reserve no room, so that the store can be full while they have some."""
    settings = settings_for(url, PREFIX)
    unlimited = {f"streams__{name}__max_bytes": -1 for name in type(settings.streams).model_fields}
    unlimited |= {f"buckets__{name}__max_bytes": -1 for name in type(settings.buckets).model_fields}
    return settings_for(url, PREFIX, **unlimited)


async def ask_shortly(nc: Client, settings: Settings, body: bytes) -> Json | None:
    """The answer within half a second, else None."""
    try:
        return await ask(nc, settings, body, timeout_s=0.5)
    except NoAnswer:
        return None


async def test_requests_that_no_stream_stores_are_told_and_answered() -> None:
    with Broker(store_limit=STORE_LIMIT) as broker:
        nc = await nats.connect(broker.url)
        await _play(nc, _build_settings(broker.url))
        await nc.close()


async def _play(nc: Client, settings: Settings) -> None:
    alarms = await AlertRecorder.heard_on(nc)
    with capture_log() as lines:
        async with a_router(settings) as router:
            http = router.ready.http
            assert (await ask(nc, settings, a_request("before")))["ok"] is True
            async with full_store(nc):
                await until(
                    lambda: _is_answered(nc, settings),
                    within_s=20,
                    what="a plain request is answered though no stream stores it",
                )
                status, page = await read_page(http, "/readyz")
                assert (status, settings.streams.decide.name in page, "stores none" in page) == (
                    503,
                    True,
                    True,
                ), page
                pushed = await ask(
                    nc, settings, a_request("pushed", push_assignment=True), timeout_s=10
                )
                assert pushed["error"]["code"] == "overloaded"
                assert pushed["error"]["details"]["retry_after_ms"] >= 1000
            assert "requests_not_stored" in alarms.causes("critical")
            assert [
                line["event"] for line in lines.all() if line["event"] == "requests.not_stored"
            ] != []
            await until(
                lambda: _is_over(nc, settings, http), within_s=20, what="requests are stored again"
            )
            assert await read_assignments(nc, settings) == []
            assert (await ask(nc, settings, a_request("after", push_assignment=True)))["ok"] is True
            assert [
                line["event"] for line in lines.all() if line["event"] == "requests.stored_again"
            ] != []


async def _is_answered(nc: Client, settings: Settings) -> bool:
    answer = await ask_shortly(nc, settings, a_request("meanwhile"))
    return answer is not None and answer["ok"] is True


async def _is_over(nc: Client, settings: Settings, http: str) -> bool:
    return await ask_shortly(nc, settings, a_request("then")) is not None and await is_ready(http)
