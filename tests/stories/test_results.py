"""Results on a real server: what is not one leaves a dead letter, what breaks a header rule is
metered, every form is one event.
"""

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.pb.beamline.flow.v1 import flow_pb2
from tests.support.router_streams import (
    a_result,
    headers_of,
    publish_result,
    read_usage,
    results_are_settled,
)
from tests.support.service import a_router, settings_for
from tests.support.stories import read_dead_letters, read_metric, read_page
from tests.support.waiting import until
from tests.support.workers import NOW_MS, in_every_form

FORMS = in_every_form(timestamp=NOW_MS)
OTHER_MESSAGE = flow_pb2.RouteRequest(policy_id="default", context={"a": "b"}).SerializeToString()

BAD = {
    "no ids": (a_result(1, assignment_id=None, request_id=None), "CORRELATION_FIELDS_INVALID"),
    "status done": (a_result(2, status="done"), "SCHEMA_VALIDATION_FAILED"),
    "negative latency": (a_result(3, latency_ms=-1), "SCHEMA_VALIDATION_FAILED"),
    "latency of ages": (a_result(3, latency_ms=2**53 + 1), "SCHEMA_VALIDATION_FAILED"),
    "cost without a bound": (a_result(3, cost=9.99e28), "SCHEMA_VALIDATION_FAILED"),
    "a clock that counts seconds": (
        a_result(3, timestamp=NOW_MS // 1000),
        "SCHEMA_VALIDATION_FAILED",
    ),
    "2 MB": (a_result(4, error_message="x" * 2 * 1024 * 1024), "PAYLOAD_TOO_LARGE"),
    "truncated protobuf": (FORMS["protobuf"].data[:-5], "SCHEMA_VALIDATION_FAILED"),
    "another message": (OTHER_MESSAGE, "SCHEMA_VALIDATION_FAILED"),
}

VIOLATIONS = {
    ("trace_id", "empty"): {"trace_id": ""},
    ("tenant_id", "empty"): {"tenant_id": ""},
    ("Nats-Msg-Id", "missing"): {"Nats-Msg-Id": ""},
    ("traceparent", "not_w3c"): {"traceparent": "00-nothing"},
    ("cp_phase", "unknown"): {"cp_phase": "cp9"},
    ("tenant_id", "mismatch"): {"tenant_id": "other"},
    ("version", "unsupported"): {"version": "2"},
}


@pytest.mark.parametrize("what", BAD)
async def test_what_is_no_result_leaves_a_dead_letter_and_the_next_is_metered(
    nc: Client, settings: Settings, what: str
) -> None:
    """Issue 3, story 4."""
    data, code = BAD[what]
    async with a_router(settings):
        await publish_result(nc, settings, data)
        await publish_result(nc, settings, a_result("next"))
        await until(lambda: results_are_settled(nc, settings))
        (letter,) = await read_dead_letters(nc, settings)
        (event,) = await read_usage(nc, settings)
    assert (letter["reason"], letter["validation_error"]["code"]) == ("validation_failed", code)
    assert event["assignment_id"] == "a-next"


async def test_each_violation_is_counted_under_its_rule_and_the_result_is_metered(
    nc: Client, settings: Settings
) -> None:
    """Issue 3, story 5: but an unsupported version, which leaves a dead letter; without a contract
    header nothing is counted.
    """
    async with a_router(settings) as router:
        await publish_result(nc, settings, a_result("bare"))
        await until(lambda: results_are_settled(nc, settings))
        assert await read_metric(router.ready.http, "router_nats_contract_violations_total") == 0
        for number, broken in enumerate(VIOLATIONS.values()):
            await publish_result(nc, settings, a_result(number), headers_of(number, **broken))
        await until(lambda: results_are_settled(nc, settings))
        counted = await _violations(router.ready.http)
        (letter,) = await read_dead_letters(nc, settings)
        metered = [event["assignment_id"] for event in await read_usage(nc, settings)]
    assert counted == dict.fromkeys(VIOLATIONS, 1)
    assert letter["validation_error"]["code"] == "VERSION_UNSUPPORTED"
    assert metered == ["a-bare", *(f"a-{number}" for number in range(len(VIOLATIONS) - 1))]


async def test_in_strict_mode_each_violation_leaves_a_dead_letter(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Issue 3, story 5, strict."""
    settings = settings_for(nats_url, prefix, contract__mode="strict")
    async with a_router(settings):
        for number, broken in enumerate(VIOLATIONS.values()):
            await publish_result(nc, settings, a_result(number), headers_of(number, **broken))
        await publish_result(nc, settings, a_result("good"), headers_of("good"))
        await until(lambda: results_are_settled(nc, settings))
        codes = {
            letter["validation_error"]["code"] for letter in await read_dead_letters(nc, settings)
        }
        metered = [event["assignment_id"] for event in await read_usage(nc, settings)]
    assert (codes, metered) == ({"HEADER_CONTRACT_VIOLATION", "VERSION_UNSUPPORTED"}, ["a-good"])


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_one_result_is_one_event(
    nc: Client, settings: Settings, form: str
) -> None:
    """Issue 3, story 8: byte for byte."""
    async with a_router(settings):
        await publish_result(nc, settings, FORMS[form].data)
        await publish_result(nc, settings, FORMS["json"].data)
        await until(lambda: results_are_settled(nc, settings))
        raw = await nc.jsm().get_msg(settings.streams.usage.name, 1)
        events = await read_usage(nc, settings)
    assert len(events) == 1
    assert raw.data == (
        b'{"version":"1","tenant_id":"acme","provider_id":"openai","event_type":"chat","latency_ms":812,"cost":0.0123,'
        b'"status":"success","timestamp":%d,"trace_id":"t-1","assignment_id":"%b","request_id":"r-1","correlated":false}'
        % (NOW_MS, events[0]["assignment_id"].encode())
    )


async def test_two_routers_meter_an_outcome_once_and_count_its_duplicate(
    nc: Client, settings: Settings
) -> None:
    """A result that is told again, to whichever router."""
    async with a_router(settings) as one, a_router(settings) as other:
        for _ in range(10):
            await publish_result(nc, settings, a_result("same"))
        await until(lambda: results_are_settled(nc, settings))
        counted = [
            await read_metric(router.ready.http, "router_results_duplicate_total")
            for router in (one, other)
        ]
        assert len(await read_usage(nc, settings)) == 1
    assert sum(counted) == 9


async def _violations(http: str) -> dict[tuple[str, str], float]:
    from prometheus_client.parser import text_string_to_metric_families

    _, text = await read_page(http, "/metrics")
    return {
        (sample.labels["header"], sample.labels["rule"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "router_nats_contract_violations_total"
    }
