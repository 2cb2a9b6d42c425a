"""Results of a tenant that is not served, and results that contradict the assignment they name."""

import itertools

from nats.aio.client import Client

from router.config import Settings
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_assignments,
    read_usage,
    results_are_settled,
)
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, read_dead_letters, read_metric
from tests.support.waiting import until

ATTEMPTS = 10
BACKOFF_MS = (100, 200, 400)


async def test_a_tenant_outside_the_list_is_sent_back_spaced_and_then_leaves_one_dead_letter(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Issue 3, story 6, with a tenth of its backoff: 1, 2, 4, 4 … up to 10 attempts, then one dead
    letter.
    """
    backoff = ",".join(map(str, BACKOFF_MS))
    settings = settings_for(nats_url, prefix, tenants_allowed="other", results__backoff_ms=backoff)
    waits = [*BACKOFF_MS, *itertools.repeat(BACKOFF_MS[-1], ATTEMPTS - 1 - len(BACKOFF_MS))]
    async with a_router(settings) as router:
        await publish_result(nc, settings, a_result(1))
        await until(lambda: read_dead_letters(nc, settings), within_s=2 * sum(waits) / 1000)
        await until(lambda: results_are_settled(nc, settings))
        (letter,) = await read_dead_letters(nc, settings)
        assert await read_metric(router.ready.http, "router_redelivery_total") == ATTEMPTS - 1
        assert await read_usage(nc, settings) == []
    assert (letter["reason"], letter["source"]["attempts"]) == ("maxdeliver_exhausted", ATTEMPTS)
    assert letter["timestamp"] - letter["received_at"] >= sum(waits)


async def test_a_result_that_contradicts_its_assignment_is_dead_at_once(
    nc: Client, settings: Settings
) -> None:
    """Issue 3, story 6, forged; the true one is metered."""
    async with a_router(settings) as router:
        assert (await ask(nc, settings, a_request(1, push_assignment=True)))["ok"] is True
        (assigned,) = await read_assignments(nc, settings)
        named = {
            "assignment_id": assigned["assignment_id"],
            "request_id": assigned["request_id"],
            "tenant_id": assigned["tenant_id"],
        }
        await publish_result(nc, settings, a_result(1, **{**named, "tenant_id": "evil"}))
        await publish_result(nc, settings, a_result(1, **{**named, "request_id": "r-evil"}))
        await publish_result(nc, settings, a_result(1, **named))
        await until(lambda: results_are_settled(nc, settings))
        codes = [
            letter["validation_error"]["code"] for letter in await read_dead_letters(nc, settings)
        ]
        assert await read_metric(router.ready.http, "router_results_forged_total") == 2
        (event,) = await read_usage(nc, settings)
    assert codes == ["TENANT_FORBIDDEN", "CORRELATION_FIELDS_INVALID"]
    assert event["assignment_id"] == assigned["assignment_id"]
