"""A push that is switched off, or not this tenant's: decided all the same, with a warning, and
counted.
"""

import pytest
from nats.aio.client import Client

from router.contracts.pb.beamline.flow.v1.flow_pb2 import RouteDecision
from tests.support.router_streams import read_assignments
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, is_settled, read_dead_letters, read_metric
from tests.support.waiting import until

SKIPPED = "router_assignments_skipped_total"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"assignment__enabled": False}, "assignment_disabled"),
        ({"assignment__tenants_allowed": "other"}, "assignment_tenant_forbidden"),
    ],
)
async def test_a_push_that_is_not_served_is_decided_with_a_warning(
    nc: Client, nats_url: str, prefix: str, setting: dict[str, object], reason: str
) -> None:
    settings = settings_for(nats_url, prefix, **setting)
    pushed = a_request("push", push_assignment=True)
    async with a_router(settings) as router:
        answer = await ask(nc, settings, pushed)
        assert (answer["ok"], answer["decision"]["provider_id"]) == (True, "openai")
        (warning,) = answer["warnings"]
        assert (warning["code"], warning["details"]) == (
            "assignment_skipped",
            {"field": "push_assignment", "reason": reason},
        )
        assert await read_metric(router.ready.http, SKIPPED, reason=reason) == 1

        assert await ask(nc, settings, pushed) == answer, "the same request hears the same"
        accept = {"Accept": "application/x-protobuf"}
        protobuf = await nc.request(
            settings.decide.subject, a_request("pb", push_assignment=True), headers=accept
        )
        assert RouteDecision.FromString(protobuf.data).metadata["assignment_skipped"] == reason
        assert "warnings" not in await ask(nc, settings, a_request("plain"))
        await until(lambda: is_settled(nc, settings))
        assert (await read_assignments(nc, settings), await read_dead_letters(nc, settings)) == (
            [],
            [],
        )
        assert await read_metric(router.ready.http, SKIPPED) == 3
