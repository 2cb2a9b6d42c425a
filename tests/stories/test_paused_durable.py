"""An operator pauses a durable on the server (`nats consumer pause`) and forgets it: no message is
delivered, and that is seen.

The server goes on sending heartbeats to open pull requests, so only the durable's info tells.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta

from nats.aio.client import Client

from router.config import Settings
from tests.support.cli import call_command_async
from tests.support.observability import capture_log
from tests.support.service import a_router
from tests.support.stories import a_request, ask, is_ready, read_page
from tests.support.waiting import until


async def pause(nc: Client, settings: Settings, until_: datetime | None) -> None:
    """As `nats consumer pause` and `nats consumer resume` do it (server 2.11)."""
    subject = f"$JS.API.CONSUMER.PAUSE.{settings.streams.decide.name}.{settings.decide.durable}"
    body = {"pause_until": until_.isoformat()} if until_ is not None else {}
    answer = json.loads((await nc.request(subject, json.dumps(body).encode(), timeout=5)).data)
    assert answer.get("paused", False) is (until_ is not None), answer


async def test_a_paused_durable_is_told_by_name_and_goes_on_when_it_is_resumed(
    nc: Client, settings: Settings
) -> None:
    remedy = f"nats consumer resume {settings.streams.decide.name} {settings.decide.durable}"
    with capture_log() as lines:
        async with a_router(settings) as router:
            http = router.ready.http
            assert (await ask(nc, settings, a_request("before")))["ok"] is True
            await pause(nc, settings, datetime.now(UTC) + timedelta(hours=1))

            async def says_so() -> bool:
                status, body = await read_page(http, "/readyz")
                return status == 503 and "consumer_paused" in body and remedy in body

            await until(says_so, within_s=15, what="readiness names the pause")
            assert [
                line["event"]
                for line in lines.all()
                if line["event"] == "consumer.paused_by_server"
            ] != []

            asking = asyncio.create_task(ask(nc, settings, a_request("meanwhile"), timeout_s=60))
            await pause(nc, settings, None)
            assert (await asking)["ok"] is True
            await until(lambda: is_ready(http), within_s=15, what="it is ready again")


async def test_the_doctor_names_the_pause_and_what_ends_it(
    nc: Client, settings: Settings, nats_url: str
) -> None:
    async with a_router(settings):
        await pause(nc, settings, datetime.now(UTC) + timedelta(hours=1))
        environ = {
            "ROUTER_STREAMS__DECIDE__NAME": settings.streams.decide.name,
            "ROUTER_DECIDE__DURABLE": settings.decide.durable,
            "ROUTER_DECIDE__SUBJECT": settings.decide.subject,
        }
        ended = await call_command_async(
            "doctor", "--json", "--nats-url", nats_url, environ=environ
        )
    (found,) = [
        line for line in ended.lines if line["check"] == f"consumer {settings.decide.durable}"
    ]
    assert found["verdict"] == "fail"
    assert "paused until" in found["found"]
    assert (
        f"nats consumer resume {settings.streams.decide.name} {settings.decide.durable}"
        in found["remedy"]
    )
