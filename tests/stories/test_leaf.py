"""A router behind a leaf node, with its streams and buckets in the hub's JetStream domain
(docs/how-to/deploy.md#leaf-nodes).
"""

import orjson
import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.assignment_record import unmarked_key
from tests.support.leaf import HUB, a_leaf
from tests.support.patient_client import connect_patiently
from tests.support.places import can_reach_hub
from tests.support.router_streams import a_result, headers_of, read_assignments, read_usage
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, list_keys, read_dead_letters
from tests.support.waiting import until

QUICK = {
    "acks__enabled": True,
    "tenants_allowed": "acme",
    "results__max_attempts": 2,
    "results__backoff_ms": "50",
}


@pytest.mark.parametrize(
    "stores", [False, True], ids=["without JetStream", "with a domain of its own"]
)
async def test_what_a_request_and_its_results_store_is_in_the_hub(
    prefix: str, stores: bool
) -> None:
    """A policy is seeded, an assignment created, an ack and a report noted, an attempt counted, a
    dead letter and a usage event stored.
    """
    with a_leaf(stores=stores) as (hub, leaf):
        settings = settings_for(leaf.url, prefix, nats__js_domain=HUB, **QUICK)
        worker, operator = await connect_patiently(leaf.url), await connect_patiently(hub.url)
        await until(lambda: can_reach_hub(worker), what="the leaf has joined the hub")
        async with a_router(settings):
            answer = await ask(worker, settings, a_request("push", push_assignment=True))
            assert answer["ok"] is True
            (assignment,) = await read_assignments(operator, settings)
            ids = {name: assignment[name] for name in ("assignment_id", "request_id")}
            await worker.publish(
                settings.acks.subject,
                orjson.dumps({**ids, "status": "accepted"}),
                headers=headers_of("ack"),
            )
            await worker.publish(
                settings.results.subject,
                a_result("known", **ids, provider_id="openai"),
                headers=headers_of("known"),
            )
            foreign = headers_of("foreign", tenant_id="other")
            await worker.publish(
                settings.results.subject, a_result("foreign", tenant_id="other"), headers=foreign
            )

            await until(lambda: read_usage(operator, settings))
            await until(lambda: read_dead_letters(operator, settings))
            (letter,) = await read_dead_letters(operator, settings)
            assert letter["source"]["attempts"] == 2
            await until(lambda: _has_assignment_and_notes(operator, settings))
        await worker.close()
        await operator.close()


async def _has_assignment_and_notes(operator: Client, settings: Settings) -> bool:
    """The assignment, its ack, and that reports from its provider may have no marks."""
    keys = await list_keys(operator, settings.buckets.assignments_known.name)
    return len(keys) == 3 and unmarked_key("acme", "openai") in keys
