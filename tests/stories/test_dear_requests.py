"""A quiet tenant beside requests that are dear, and beside thousands of tenants that are made up:
it is answered before most of them. Only counts and their order are looked at.
"""

import time
from collections.abc import Awaitable

import pytest
from nats.aio.client import Client

from router.core.message import Message
from router.core.outcome import Handler, Outcome
from tests.support.service import a_router, settings_for
from tests.support.stories import Inboxes, a_request, ask, make_topology, wrap_decide_handler
from tests.support.waiting import until

QUIET = 10
# a request of either neighbour, in seconds of the processor
DEAR_S, MADE_UP_S = 0.02, 0.002
# fewer than a backlog of cheap requests has, and seconds of work: a few pass before it is noticed
DEAR = 240
MADE_UP = 1_000


def _busy(handle: Handler) -> Handler:
    def slow(message: Message) -> Outcome | Awaitable[Outcome]:
        seconds = DEAR_S if b"dear-" in message.data else 0.0
        if b"made-up-" in message.data:
            seconds = MADE_UP_S
        until_s = time.thread_time() + seconds
        while time.thread_time() < until_s:
            pass
        return handle(message)

    return slow


async def test_a_quiet_tenant_is_answered_before_most_of_few_dear_requests(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrap_decide_handler(monkeypatch, _busy)
    settings = settings_for(
        nats_url, prefix, decide__prefetch=8, admission__tenant_weights="acme=1,loud=1"
    )
    await make_topology(settings)
    loud, quiet = await Inboxes.under(nc, "loud"), await Inboxes.under(nc, "quiet")
    for number in range(DEAR):
        await loud.publish_named(
            nc, settings, number, a_request(f"dear-{number}", tenant_id="loud")
        )
    for number in range(QUIET):
        await quiet.publish_named(nc, settings, f"q-{number}", a_request(f"quiet-{number}"))
    await nc.flush()
    async with a_router(settings):
        await until(lambda: len(quiet) == QUIET, within_s=60)
        answered_before = len(loud)
    assert answered_before < DEAR - 20


async def test_a_known_tenant_is_answered_before_most_of_a_thousand_that_are_made_up_also_after_a_restart(
    nc: Client, nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All use shared policies. The quiet one was answered before, by a router that has ended."""
    wrap_decide_handler(monkeypatch, _busy)
    monkeypatch.setattr("router.decide.stored_places.LOOK_S", 0.01)
    settings = settings_for(nats_url, prefix)
    async with a_router(settings) as router:
        places = router.service._context.places
        for number in range(1_000):
            assert (await ask(nc, settings, a_request(f"earlier-{number}")))["ok"]
            if places.find("acme") == "acme":
                break
    made_up, quiet = await Inboxes.under(nc, "made"), await Inboxes.under(nc, "quiet")
    for number in range(MADE_UP):
        await made_up.publish_named(
            nc, settings, number, a_request(f"made-up-{number}", tenant_id=f"made-up-{number}")
        )
    for number in range(QUIET):
        await quiet.publish_named(nc, settings, f"q-{number}", a_request(f"quiet-{number}"))
    await nc.flush()
    async with a_router(settings):
        await until(lambda: len(quiet) == QUIET, within_s=60)
        answered_before = len(made_up)
    assert answered_before < MADE_UP / 2
