"""Every field that the specifications' tables do not mark optional is in every answer, assignment,
usage event, dead letter and alert.

Real routers are asked in every form, with and without what is optional, and for everything that
they refuse.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from prometheus_client.parser import text_string_to_metric_families

from router.config import Settings
from router.contracts.pb.beamline.flow.v1.flow_pb2 import RouteDecision
from router.contracts.provider import PROTOBUF
from router.core.message import Message
from router.core.outcome import Outcome
from router.decide.model.origin import build_overload_answer, read_origin
from router.decide.model.read import RequestLimits
from tests.support.observability import capture_log
from tests.support.requests import GOOD_HEADERS, TRACEPARENT, a_body, a_protobuf, every_form
from tests.support.router_streams import AlertRecorder, publish_result, read_stream
from tests.support.service import a_router, settings_for
from tests.support.spec_tables import find_faults, find_faults_in
from tests.support.stories import Json, read_metric, read_page, wrap_decide_handler
from tests.support.waiting import until
from tests.support.workers import in_every_form

Request = tuple[bytes, Mapping[str, str]]
BARE = json.dumps(a_body()).encode()  # the CP1 baseline: no id, no header
FULL = {
    "trace_id": "t-1",
    "message_id": "m-1",
    "timestamp_ms": 1_704_067_200_000,
    "metadata": {"source": "gateway"},
}
LETTERS = 26  # 14 of the refused requests, and all of six results and six acknowledgements
WORKFLOW = {"run_id": "run-1", "flow_id": "f-1", "step_id": "s-1"}


def _write(name: object, **fields: Any) -> Request:
    """A request in JSON; `name` becomes its message id."""
    return json.dumps({**a_body(), **fields}).encode(), {"Nats-Msg-Id": f"m-{name}"}


def list_decided(**more: Any) -> list[Request]:
    """Requests that get a decision: in the five forms, with and without ids, headers, and what is
    optional.
    """
    ids = ({"request_id": f"r-form-{number}", "policy_id": "default"} for number in range(9))
    forms: list[Request] = [
        (json.dumps({**json.loads(one.data), **named, **more}).encode(), {})
        for one, named in zip(_list_json_forms(), ids, strict=False)
    ]
    headers = {"push_assignment": "true"} if more else {}
    forms.append((_make_protobuf(), {"request_id": "r-e", **headers}))
    return [
        *forms,
        (json.dumps({**a_body(), **more}).encode(), {}),
        _write(
            "full",
            **{
                **a_body(**FULL, **WORKFLOW),
                "request_id": "r-full",
                "policy_id": "default",
                "context": {"a": "b"},
                **more,
            },
        ),
        _write("key", idempotency_key="k-1", **more),
        (
            json.dumps({**a_body(), "request_id": "r-headers", **more}).encode(),
            {**GOOD_HEADERS, "traceparent": TRACEPARENT},
        ),
        _write("hint", polcy_id="default", request_id="r-hint", **more),
    ]


def _list_json_forms() -> list[Message]:
    return [message for form, message in every_form().items() if form != "e"]


def _make_protobuf() -> bytes:
    from router.contracts.pb.beamline.flow.v1.flow_pb2 import RouteRequest

    request = RouteRequest.FromString(a_protobuf())
    request.policy_id = "default"
    return request.SerializeToString()


def list_refused() -> list[Request]:
    """Requests that are refused, few of which say who they are."""
    return [
        (b"", {}),
        (b"nonsense", {}),
        (b"{", {}),
        (b"[]", {}),
        (b"\xef\xbb\xbf" + BARE, {}),
        (b"{}", {}),
        (json.dumps({"message": {"message_type": "chat", "payload": 1}}).encode(), {}),
        (
            json.dumps({"message": {"tenant_id": "acme", "payload": 1}}).encode(),
            {"trace_id": "t-1", "Nats-Msg-Id": "m-type"},
        ),
        (json.dumps({**a_body(), "request_id": 7}).encode(), {}),
        (json.dumps({**a_body(), "version": "9"}).encode(), {}),
        (json.dumps({**a_body(), "policy_id": "nope"}).encode(), {}),
        (
            json.dumps(
                {**a_body(), "policy_id": "nope", "trace_id": "t-2", "request_id": "r-nope"}
            ).encode(),
            {},
        ),
        (b'{"a":' * 70 + b"1" + b"}" * 70, {}),
        (json.dumps({**a_body(payload="x" * 9_000)}).encode(), {}),
        (
            json.dumps(
                {**a_body(), "tenant_id": "evil", "message": {"message_type": "chat", "payload": 1}}
            ).encode(),
            {},
        ),
        (BARE, {"Nats-TTL": "1s"}),
        (b"nonsense", {"Nats-Rollup": "all"}),
        (BARE, {"Nats-Trace-Only": "true"}),
        (BARE, {"Nats-TTL": "1s", "trace_id": "t-3"}),
    ]


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return settings_for(
        nats_url,
        prefix,
        max_payload_bytes=8_192,
        tenants_allowed="acme",
        decide__backoff_ms="10,20,30",
        reply__inbox_wait_ms=10_000,
    )


async def ask_each(nc: Client, settings: Settings, requests: Sequence[Request]) -> list[Json]:
    return [
        json.loads((await _ask(nc, settings, data, headers)).data) for data, headers in requests
    ]


async def _ask(nc: Client, settings: Settings, data: bytes, headers: Mapping[str, str]) -> Msg:
    return await nc.request(
        settings.decide.subject, data, timeout=60, headers=dict(headers) or None
    )


async def test_every_decision_has_the_fields_of_its_table(nc: Client, settings: Settings) -> None:
    async with a_router(settings):
        answers = await ask_each(nc, settings, list_decided())
        told = await _ask(nc, settings, BARE, {"Accept": PROTOBUF, "Nats-Msg-Id": "m-protobuf"})
    assert find_faults_in("decide_answer", answers, least=9) == []
    decision = RouteDecision.FromString(told.data)
    assert all((decision.provider_id, decision.reason, decision.metadata["policy_id"]))


async def test_every_refusal_has_the_fields_of_its_table(nc: Client, settings: Settings) -> None:
    async with a_router(settings):
        answers = await ask_each(nc, settings, list_refused())
    assert find_faults_in("decide_error", answers, least=len(list_refused())) == []


async def test_the_same_refused_request_is_told_by_its_own_id(
    nc: Client, settings: Settings
) -> None:
    """Ids that the router derives are of the request, so two are never the same."""
    async with a_router(settings):
        answers = await ask_each(
            nc,
            settings,
            [
                (BARE, {"Nats-TTL": "1s"}),
                (b"{}", {"Nats-TTL": "1s"}),
                (b"nonsense", {}),
                (b"{}", {}),
            ],
        )
    assert len({answer["context"]["request_id"] for answer in answers}) == 4


async def test_an_answer_of_a_handler_that_fails_has_the_fields_of_its_table(
    nc: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(message: Message) -> Outcome:
        raise RuntimeError("whatever it is asked")

    wrap_decide_handler(monkeypatch, lambda _: fail)
    async with a_router(settings):
        answers = await ask_each(
            nc,
            settings,
            [(BARE, {}), _write("id"), _write("key", idempotency_key="k"), (b"nonsense", {})],
        )
    assert find_faults_in("decide_error", answers, least=4) == []
    assert len({answer["context"]["request_id"] for answer in answers}) == 4


async def test_a_message_id_that_is_taken_is_told_with_the_fields_of_the_table(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, streams__decide__duplicate_window_ms=60_000)
    async with a_router(settings):
        answers = await ask_each(
            nc, settings, [_write("taken"), _write("taken", policy_id="other")]
        )
    assert find_faults("decide_answer", answers[0]) == []
    assert (answers[1]["error"]["details"]["cause"], find_faults("decide_error", answers[1])) == (
        "message_id_taken",
        [],
    )


@pytest.mark.parametrize(("data", "headers"), list_decided())
def test_a_request_above_its_tenants_share_is_refused_with_the_fields_of_the_table(
    data: bytes, headers: Mapping[str, str]
) -> None:
    limits = RequestLimits(
        max_payload_bytes=8_192, max_depth=64, assignment_subjects=("caf.exec.assign.v1",)
    )
    origin = read_origin(data, headers, limits)
    assert origin is not None
    assert find_faults("decide_error", json.loads(build_overload_answer(origin, 1000))) == []


async def test_every_answer_on_the_reply_subject_has_the_headers_of_its_table(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, max_payload_bytes=8_192, tenants_allowed="acme")
    heard: list[Msg] = []

    async def hear(message: Msg) -> None:
        heard.append(message)

    async with a_router(settings):
        await nc.subscribe(f"{settings.decide.subject}.reply", cb=hear)
        await nc.flush()
        asked = [
            one
            for one in (*list_decided(), *list_refused())
            if not any(name.startswith("Nats-T") for name in one[1])
        ]
        for number, (data, headers) in enumerate(asked):
            named = {**headers, "Nats-Msg-Id": f"p-{number}", "Reply-To": "not.an.inbox"}
            await nc.publish(settings.decide.subject, data, headers=named)
        # that with a control header that no stream takes has no answer here
        await until(lambda: len(heard) >= len(asked) - 1)
    assert (
        find_faults_in(
            "reply_subject_headers",
            [dict(one.headers or {}) for one in heard],
            least=len(asked) - 1,
        )
        == []
    )
    for answer in (json.loads(one.data) for one in heard):
        assert find_faults("decide_answer" if answer["ok"] else "decide_error", answer) == []


async def test_every_assignment_and_its_usage_event_has_the_fields_of_its_table(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        await ask_each(nc, settings, list_decided(push_assignment=True))
        stored = await read_stream(nc, settings.streams.assignments.name)
        assignments = [json.loads(data) for _, data, _ in stored]
        for data, headers in _list_results(assignments):
            await publish_result(nc, settings, data, headers)
        await until(lambda: _has_stored(nc, settings.streams.usage.name, len(assignments) + 3))
        usage = [
            json.loads(data) for _, data, _ in await read_stream(nc, settings.streams.usage.name)
        ]
    assert find_faults_in("assignment", assignments, least=8) == []
    assert (
        find_faults_in("assignment_headers", [headers for _, _, headers in stored], least=8) == []
    )
    assert find_faults_in("usage", usage, least=11) == []
    assert all("assignment_id" in one or "request_id" in one for one in usage)


def _list_results(assignments: Sequence[Json]) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Of each assignment as little as is legal, with another status each; of unknown ones in every
    form.
    """
    for number, one in enumerate(assignments):
        status = ("success", "error", "timeout", "cancelled")[number % 4]
        named = {
            "assignment_id": one["assignment_id"],
            **({"request_id": one["request_id"]} if number % 2 else {}),
        }
        whole = {**named, "status": status, "latency_ms": 1.5, "cost": 0}
        yield json.dumps(whole).encode(), {"Nats-Msg-Id": f"result-{number}"}
    for form, message in in_every_form(
        assignment_id="a-unknown", request_id="r-unknown", trace_id=None, timestamp=None
    ).items():
        yield (
            message.data.replace(b"a-unknown", f"a-{form:>7.7}".replace(" ", "-").encode()),
            {"Nats-Msg-Id": f"unknown-{form}"},
        )


async def _has_stored(nc: Client, stream: str, count: int) -> bool:
    return (await nc.jsm().stream_info(stream)).state.messages >= count


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "without the message"])
async def test_every_dead_letter_has_the_fields_of_both_tables(
    nc: Client, nats_url: str, prefix: str, *, whole: bool
) -> None:
    settings = settings_for(
        nats_url,
        prefix,
        max_payload_bytes=8_192,
        tenants_allowed="acme",
        acks__enabled=True,
        dlq__include_full_message=whole,
        **{f"{name}__backoff_ms": "10,20,30" for name in ("decide", "results", "acks")},
    )
    bad = [
        b"",
        b"nonsense",
        b"{}",
        b'{"assignment_id": "a-1", "status": "odd", "tenant_id": "acme"}',
        b"\xff" * 9_000,
    ]
    foreign = json.loads(in_every_form(tenant_id="evil", timestamp=None)["json"].data)
    async with a_router(settings):
        answers = await ask_each(nc, settings, list_refused())
        for subject in (settings.results.subject, settings.acks.subject):
            for number, data in enumerate(bad):
                given = (
                    {"Nats-Msg-Id": f"{subject}-{number}", "trace_id": "t-1", "tenant_id": "acme"}
                    if number % 2
                    else None
                )
                await nc.jetstream().publish(subject, data, headers=given)
            await nc.jetstream().publish(subject, json.dumps(foreign).encode())
        await until(lambda: _has_stored(nc, settings.streams.dlq.name, LETTERS))
        stored = await read_stream(nc, settings.streams.dlq.name)
    letters = [json.loads(data) for _, data, _ in stored]
    assert len(answers) == len(list_refused())
    assert find_faults_in("dead_letter", letters, least=LETTERS) == []
    assert find_faults_in("dead_letter_legacy", letters, least=LETTERS) == []
    assert (
        find_faults_in("dead_letter_headers", [headers for _, _, headers in stored], least=LETTERS)
        == []
    )
    assert {letter["reason"] for letter in letters} == {"validation_failed", "maxdeliver_exhausted"}
    assert all(
        ("validation_error" in letter) == (letter["reason"] == "validation_failed")
        for letter in letters
    )
    assert all(("message" in letter) == whole for letter in letters)


async def test_every_violation_is_logged_and_counted_under_the_specifications_names(
    nc: Client, settings: Settings
) -> None:
    broken = [
        {"trace_id": ""},
        {"version": "9"},
        {"tenant_id": "_x", "Nats-Msg-Id": "v-3"},
        {"cp_phase": "cp9", "Nats-Msg-Id": "v-4"},
    ]
    with capture_log() as lines:
        async with a_router(settings) as router:
            await ask_each(nc, settings, [(BARE, headers) for headers in broken])
            foreign = in_every_form(tenant_id="evil", timestamp=None)["json"].data
            # it is sent back: the tenant may be served soon
            await nc.jetstream().publish(settings.results.subject, foreign)
            await until(lambda: has_sent_back(router.ready.http))
            _, page = await read_page(router.ready.http, "/metrics")
    assert find_faults_in("violation_line", lines.of("contract.violation"), least=4) == []
    families = text_string_to_metric_families(page)
    found = {sample.name: sample.value for family in families for sample in family.samples}
    assert find_faults("router_metrics", found) == []


async def has_sent_back(http: str) -> bool:
    return await read_metric(http, "router_redelivery_total") >= 1


async def test_every_alert_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, acks__enabled=True)
    alarms = await AlertRecorder.heard_on(nc)
    async with a_router(settings):
        await ask_each(
            nc,
            settings,
            [
                (b"nonsense", {}),
                *((BARE, {"trace_id": "", "Nats-Msg-Id": f"v-{n}"}) for n in range(12)),
            ],
        )
        await nc.jetstream().publish(
            settings.acks.subject,
            b'{"assignment_id": "a-1", "status": "rejected", "tenant_id": "acme"}',
        )
        await until(lambda: len(alarms.subjects) >= 2)
    told = [json.loads(alert) for alerts in alarms.heard.values() for alert in alerts]
    assert find_faults_in("alert", told, least=2) == []
    assert all(
        f"beamline.alert.v1.{json.loads(one)['severity']}" == subject
        for subject, some in alarms.heard.items()
        for one in some
    )
