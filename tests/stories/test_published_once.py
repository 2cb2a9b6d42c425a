"""What is known to be stored is not published again: who listens on the subject, beside the stream,
hears it once.
"""

import asyncio
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.usage import USAGE_SUBJECT
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_assignments,
    read_usage,
    results_are_settled,
    store_assignment,
)
from tests.support.service import a_router
from tests.support.stories import Inboxes, MessageRecorder, a_request, is_settled, read_metric
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("no_probes")

COPIES = 20


async def test_a_result_that_is_repeated_is_published_once_as_usage(
    nc: Client, settings: Settings
) -> None:
    """Many at once, while the first one's event is on its way, and one more when all are settled;
    each counts as a duplicate.
    """
    heard = await MessageRecorder.on(nc, USAGE_SUBJECT)
    async with a_router(settings) as router:
        await store_assignment(nc, settings, "same")
        await asyncio.gather(
            *(publish_result(nc, settings, a_result("same")) for _ in range(COPIES))
        )
        await until(lambda: results_are_settled(nc, settings))
        await publish_result(nc, settings, a_result("same", latency_ms=5))
        await until(lambda: results_are_settled(nc, settings))
        await publish_result(nc, settings, a_result("next"))
        await until(
            lambda: b"a-next" in heard.heard.get(USAGE_SUBJECT, [b""])[-1], what="the last event"
        )
        counted = [
            await read_metric(router.ready.http, f"router_results_{name}_total")
            for name in ("duplicate", "conflict")
        ]
        assert [one["assignment_id"] for one in await read_usage(nc, settings)] == [
            "a-same",
            "a-next",
        ]
    assert len(heard) == 2
    assert counted == [COPIES, 1]


@pytest.mark.parametrize("routers", [1, 2])
async def test_concurrent_duplicates_of_one_push_are_published_once_by_each_router(
    nc: Client, settings: Settings, routers: int
) -> None:
    """Every one is answered, alike; workers on the subject, beside the stream, hear at most one
    copy of each router.
    """
    heard, inboxes = (
        await MessageRecorder.on(nc, settings.assignment.subjects[0]),
        await Inboxes.under(nc, "pushed"),
    )
    async with AsyncExitStack() as stack:
        for _ in range(routers):
            await stack.enter_async_context(a_router(settings))
        for copy in range(COPIES):
            headers = {"Nats-Msg-Id": f"m-{copy}", "Reply-To": inboxes.of(copy)}
            await nc.publish(
                settings.decide.subject, a_request("same", push_assignment=True), headers=headers
            )
        await until(lambda: len(inboxes.subjects) == COPIES)
        await until(lambda: is_settled(nc, settings))
        await nc.flush()
        assert len(await read_assignments(nc, settings)) == 1
    assert 1 <= len(heard) <= routers
    assert len({answer for answers in inboxes.heard.values() for answer in answers}) == 1
