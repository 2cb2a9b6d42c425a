"""A decision is found again, whichever instance made it, and by its own tenant alone."""

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.admin import GET_DECISION, call_on, code
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask

PATIENT_MS = 20_000  # an instance of a busy machine has so long to tell what it decided


async def test_a_decision_is_found_whichever_instance_made_it(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Twenty requests over two instances, which share a queue group and no memory; the key goes
    with the question to the other.
    """
    settings = settings_for(
        nats_url, prefix, admin__api_key="sesame", admin__peers_wait_ms=PATIENT_MS
    )
    key = {"api_key": "sesame"}
    async with a_router(settings), a_router(settings):
        answers = {
            name: await ask(nc, settings, a_request(name), {"Nats-Msg-Id": f"m-{name}"})
            for name in range(20)
        }
        for name, answer in answers.items():
            by_request = await call_on(
                nc, GET_DECISION, key, tenant_id="acme", request_id=f"r-{name}"
            )
            by_message = await call_on(
                nc, GET_DECISION, key, tenant_id="acme", message_id=f"m-{name}"
            )
            assert by_request == by_message == answer


async def test_a_pushed_decision_is_found_after_all_instances_that_knew_it_are_gone(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        answer = await ask(nc, settings, a_request(1, push_assignment=True))
    async with a_router(settings):
        assert await call_on(nc, GET_DECISION, tenant_id="acme", request_id="r-1") == answer


async def test_another_tenants_decision_is_not_found(nc: Client, settings: Settings) -> None:
    """Story 9, remembered and pushed."""
    async with a_router(settings):
        for name, push in ((1, False), (2, True)):
            assert (await ask(nc, settings, a_request(name, push_assignment=push)))["ok"] is True
            assert (
                code(await call_on(nc, GET_DECISION, tenant_id="evil", request_id=f"r-{name}"))
                == "decision_not_found"
            )
            assert (
                code(await call_on(nc, GET_DECISION, request_id=f"r-{name}")) == "invalid_request"
            )


@pytest.mark.parametrize(
    "setting",
    [{"admin__single_tenant": "acme"}, {"tenants_allowed": "acme"}],
    ids=["named", "served-alone"],
)
async def test_a_gateway_of_one_tenant_asks_by_its_message_id_alone(
    nc: Client, nats_url: str, prefix: str, setting: dict[str, object]
) -> None:
    """Two routers, so that the tenant goes with the question to the other."""
    settings = settings_for(nats_url, prefix, admin__peers_wait_ms=PATIENT_MS, **setting)
    async with a_router(settings), a_router(settings):
        answers = {
            name: await ask(nc, settings, a_request(name), {"Nats-Msg-Id": f"m-{name}"})
            for name in range(8)
        }
        for name, answer in answers.items():
            assert await call_on(nc, GET_DECISION, message_id=f"m-{name}") == answer


async def test_without_a_tenant_the_refusal_says_how_one_is_named(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        assert (await ask(nc, settings, a_request(1), {"Nats-Msg-Id": "m-1"}))["ok"] is True
        error = (await call_on(nc, GET_DECISION, message_id="m-1"))["error"]
        assert (error["code"], error["details"]["field"]) == ("invalid_request", "tenant_id")
        assert "admin.single_tenant" in error["details"]["hint"]
