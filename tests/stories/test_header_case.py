"""Headers in the case that other clients write them: the trace goes on, and a violation is counted."""

import asyncio
import json

from nats.aio.client import Client

from router.config import Settings
from tests.support.service import a_router
from tests.support.stories import a_request, ask, has_metric
from tests.support.waiting import until

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_trace_in_the_case_of_go_reaches_the_assignment(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        assigned = await nc.subscribe(settings.assignment.subjects[0])
        for name in ("Traceparent", "TRACEPARENT", "traceparent"):
            headers = {name: PARENT, "Nats-Msg-Id": f"m-{name}"}
            assert (await ask(nc, settings, a_request(name, push_assignment=True), headers))[
                "ok"
            ] is True
            message = await assigned.next_msg(timeout=30)
            assert message.headers is not None
            assert message.headers["traceparent"] == PARENT, name


async def test_an_empty_header_in_another_case_is_a_violation(
    nc: Client, settings: Settings
) -> None:
    total = "router_nats_contract_violations_total"
    async with a_router(settings) as router:
        asked = [
            ask(nc, settings, a_request(name), {name: "", "Nats-Msg-Id": f"m-{name}"})
            for name in ("Trace_id", "TENANT_ID")
        ]
        assert all(answer["ok"] for answer in await asyncio.gather(*asked))
        for header in ("trace_id", "tenant_id"):
            await until(
                lambda header=header: has_metric(
                    router.ready.http, total, 1, header=header, rule="empty"
                )
            )


async def test_the_servers_own_names_are_exact_and_the_rule_says_so(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings) as router:
        answer = await ask(nc, settings, a_request("id"), {"trace_id": "t-1", "nats-msg-id": "m-1"})
        assert answer["ok"] is True, json.dumps(answer)
        total = "router_nats_contract_violations_total"
        await until(
            lambda: has_metric(router.ready.http, total, 1, header="Nats-Msg-Id", rule="missing")
        )
