"""One bucket is unavailable: the requests that need it wait, and every other request is answered."""

import asyncio

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.core.errors import RouterError
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from tests.support.router_streams import read_assignments
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    a_request,
    ask,
    expect_others_to_be_answered,
    is_ready,
    make_topology,
    says_that_others_go_on,
    wrap_decide_handler,
)
from tests.support.waiting import until

PLAIN = 13


async def test_plain_requests_are_answered_while_the_assignments_bucket_is_unavailable(
    nc: Client, nats_url: str, prefix: str
) -> None:
    # else the router makes the bucket again
    settings = settings_for(nats_url, prefix, effects__retry_ms=50, topology="check")
    await make_topology(settings)
    async with a_router(settings) as router:
        await nc.jetstream().delete_key_value(settings.buckets.assignments_known.name)
        pushed = asyncio.create_task(ask(nc, settings, a_request("pushed", push_assignment=True)))
        await _expect_others_to_be_answered(nc, settings, router)
        await make_topology(settings)
        assert (await pushed)["ok"] is True
        assert len(await read_assignments(nc, settings)) == 1
        await until(lambda: is_ready(router.ready.http))


async def test_plain_requests_are_answered_while_the_attempts_bucket_is_unavailable(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request whose first attempt failed waits until that attempt can be recorded."""
    failed: set[int] = set()

    def fail_once(handle: Handler) -> Handler:
        def handled(message: Message) -> Outcome:
            if b"r-fails" in message.data and message.sequence not in failed:
                failed.add(message.sequence)
                raise RouterError("not yet")
            return handle(message)  # type: ignore[return-value]

        return handled

    wrap_decide_handler(monkeypatch, fail_once)
    settings = settings_for(
        nats_url, prefix, effects__retry_ms=50, decide__backoff_ms="10", topology="check"
    )
    await make_topology(settings)
    async with a_router(settings) as router:
        await nc.jetstream().delete_key_value(settings.buckets.attempts.name)
        retried = asyncio.create_task(ask(nc, settings, a_request("fails")))
        await _expect_others_to_be_answered(nc, settings, router)
        await make_topology(settings)
        assert (await retried)["ok"] is True
        await until(lambda: is_ready(router.ready.http))


async def _expect_others_to_be_answered(nc: Client, settings: Settings, router: Running) -> None:
    """Once one request waits, as /readyz says, the plain ones are answered."""
    await until(lambda: says_that_others_go_on(router.ready.http), what="a request that waits")
    await expect_others_to_be_answered(nc, settings, PLAIN)
