"""What a client writes into the headers of its request names its request, and nothing else."""

from collections.abc import AsyncIterator

import pytest

from router.config import Settings
from router.policies.followed import SAMPLE_POLICIES
from router.providers.service import ProviderService, serve_provider
from tests.support.beside import beside
from tests.support.gateway import Gateway, a_gateway, wait_for_provider
from tests.support.provider_services import options_for
from tests.support.router_streams import read_usage
from tests.support.service import a_router, settings_for
from tests.support.waiting import until

PATH = "/v1/chat/completions"
QUESTION = {"model": "router/echo", "messages": [{"role": "user", "content": "hello"}]}
ID = "x_router_request_id"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(nats_url, prefix, gateway__port=0, gateway__pages_port=0)


@pytest.fixture
async def gateway(settings: Settings) -> AsyncIterator[Gateway]:
    service = ProviderService(options_for("echo", name="echo", timeout_ms=20_000))
    async with (
        a_router(settings, policies=SAMPLE_POLICIES),
        beside(serve_provider(service, settings, lambda **_: None)),
        a_gateway(settings) as gateway,
    ):
        await wait_for_provider(gateway, "echo")
        yield gateway


@pytest.mark.parametrize("given", ["r-1~2", "x" * 129, "two words", "caf\u00e9", "~"])
async def test_an_id_that_is_not_legal_is_replaced(gateway: Gateway, given: str) -> None:
    answer = await gateway.client.post(
        gateway.url + PATH,
        json=QUESTION,
        headers={
            "authorization": f"Bearer {gateway.key}",
            "x-router-request-id": given.encode("latin-1"),
        },
    )
    assert answer.status_code == 200
    assert len(answer.headers["x-router-request-id"]) == 32
    assert given not in answer.text


async def test_only_a_legal_traceparent_goes_on_and_no_header_names_a_tenant(
    gateway: Gateway, settings: Settings, nc: object
) -> None:
    for number, traceparent in enumerate((f"00-{TRACE}-b7ad6b7169203331-01", "00-zz-zz-01")):
        given = {ID: f"r-{number}", "traceparent": traceparent, "tenant_id": "other"}
        answer = await gateway.post(PATH, QUESTION, **given, x_tenant_id="other")
        assert answer.headers["x-router-request-id"] == f"r-{number}"

    async def are_metered() -> bool:
        return len(await read_usage(nc, settings)) == 2

    await until(are_metered)
    events = {event["request_id"]: event for event in await read_usage(nc, settings)}
    assert {event["tenant_id"] for event in events.values()} == {"acme"}
    assert events["r-0"]["trace_id"] == TRACE
    assert events["r-1"]["trace_id"] not in (TRACE, "zz")
