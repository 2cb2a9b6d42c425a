"""Every field that the specifications' tables do not mark optional is in every call, response,
chunk, receipt and operators' answer.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.contracts.ingress import INGRESS_SUBJECT
from router.contracts.pb.beamline.ingress.v1.ingress_pb2 import IngressMessage
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.provider import INVOKE, INVOKE_STREAM
from tests.stories.test_spec_tables_decide import ask_each, list_decided
from tests.support.admin import call
from tests.support.extension_pipeline import (
    Extension,
    PipelinePlace,
    a_pipeline,
    hangs,
    lowers,
    marks,
    passes,
    rejects,
)
from tests.support.providers import (
    Answer,
    Streaming,
    an_entry,
    answers,
    register,
    says,
    says_no,
    serve_provider,
)
from tests.support.service import a_router, settings_for
from tests.support.spec_tables import find_faults_in
from tests.support.stories import Json

CALM = {"timeout_ms": 20_000}
ASKED: Json = {"provider_id": "echo", "tenant_id": "acme", "body": "hello"}
ASKED_FULL: Json = {
    **ASKED,
    "message_id": "m-1",
    "trace_id": "t-1",
    "parameters": {"max_tokens": 5},
    "metadata": {"a": "b"},
}
PACKED = provider_pb2.ProviderRequest(
    provider_id="echo", tenant_id="acme", body=b"\xff"
).SerializeToString()
REFUSED: list[bytes] = [
    b"",
    b"nonsense",
    b"{}",
    json.dumps({**ASKED, "tenant_id": None}).encode(),
    json.dumps({**ASKED, "provider_id": "a.b"}).encode(),
    json.dumps({**ASKED, "provider_id": "nope"}).encode(),
    json.dumps({**ASKED, "provider_id": "absent"}).encode(),
    json.dumps({**ASKED, "message_id": 7}).encode(),
]
TAKEN: list[bytes] = [json.dumps(ASKED).encode(), json.dumps(ASKED_FULL).encode(), PACKED]


async def test_every_request_to_an_extension_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    kinds = {"lower": ("pre", lowers), "guard": ("validator", passes), "mark": ("post", marks)}
    services = [
        await Extension(nc, kind, name, answer).start() for name, (kind, answer) in kinds.items()
    ]
    stages = {"pre": [{"id": "lower"}], "validators": [{"id": "guard"}], "post": [{"id": "mark"}]}
    entries = {name: {"kind": kind, **CALM} for name, (kind, _) in kinds.items()}
    async with a_pipeline(
        PipelinePlace(nats_url, prefix, tmp_path), entries, {"default": stages}
    ) as (_, settings):
        answers = await ask_each(nc, settings, list_decided())
    asked = [json.loads(one.data) for service in services for one in service.asked]
    assert find_faults_in("decide_answer", answers, least=9) == []
    assert find_faults_in("extension_request", asked, least=27) == []


@pytest.mark.parametrize("answer", [rejects, hangs, None], ids=["rejects", "hangs", "is not there"])
async def test_every_error_of_a_pipeline_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path, answer: Answer | None
) -> None:
    if answer is not None:
        await Extension(nc, "validator", "guard", answer).start()
    entries, stages = (
        {"guard": {"kind": "validator", "timeout_ms": 100}},
        {"validators": [{"id": "guard", "on_fail": "block"}]},
    )
    async with a_pipeline(
        PipelinePlace(nats_url, prefix, tmp_path), entries, {"default": stages}
    ) as (_, settings):
        errors = await ask_each(nc, settings, list_decided()[:6])
    assert find_faults_in("decide_error", errors, least=6) == []


async def test_every_call_of_a_provider_and_its_response_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str
) -> None:
    async with a_router(settings_for(nats_url, prefix)) as router:
        await register(router, an_entry(), an_entry("absent"))
        told: list[Msg] = []
        for answer in (answers, _answer_little, says_no(400), says_no(503), says(b"garbage")):
            async with serve_provider(nc, answer) as asked:
                told += [await nc.request(INVOKE, data, timeout=60) for data in TAKEN]
            assert (
                find_faults_in("provider_call", [json.loads(one.data) for one in asked], least=2)
                == []
            )
        told += [await nc.request(INVOKE, data, timeout=60) for data in REFUSED]
    responses = [json.loads(one.data) for one in told]
    assert find_faults_in("provider_response", responses, least=20) == []
    assert {one["status"] for one in responses} == {"success", "error"}
    assert all("error_code" in one for one in responses if one["status"] != "success")


async def _answer_little(message: Msg) -> None:
    await message.respond(b'{"output": {"text": "hi"}}')


async def test_every_chunk_of_a_stream_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str
) -> None:
    async with a_router(settings_for(nats_url, prefix)) as router:
        await register(router, an_entry(), an_entry("absent"))
        heard = []
        for answer in (Streaming(nc), answers, says(b"garbage"), says_no(503)):
            async with serve_provider(nc, answer):
                heard += [chunk for data in TAKEN[:2] for chunk in await _read_stream(nc, data)]
        heard += [chunk for data in REFUSED for chunk in await _read_stream(nc, data)]
    assert find_faults_in("stream_chunk", heard, least=18) == []
    assert any(not chunk["metadata"] for chunk in heard), "a piece that tells nothing has it too"


async def _read_stream(nc: Client, data: bytes) -> list[Json]:
    inbox, found = nc.new_inbox(), list[Json]()
    subscription = await nc.subscribe(inbox)
    await nc.publish(INVOKE_STREAM, data, reply=inbox)
    while not (found and found[-1]["done"]):
        found.append(json.loads((await subscription.next_msg(timeout=60)).data))
    await subscription.unsubscribe()
    return found


async def test_every_receipt_of_the_ingress_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str
) -> None:
    good = {"tenant_id": "acme", "message_id": "m-1", "type": "chat", "payload": {"text": "hello"}}
    sent = [
        json.dumps(good).encode(),
        json.dumps(
            {
                **good,
                "message_id": "m-2",
                "correlation_id": "c-1",
                "trace_id": "t-1",
                "timestamp": "2026-01-02T03:04:05Z",
            }
        ).encode(),
        IngressMessage(
            message_id="m-3", tenant_id="acme", message_type="chat", payload=b"\xff"
        ).SerializeToString(),
        *(json.dumps({**good, name: None}).encode() for name in good),
        json.dumps({**good, "tenant_id": "evil", "correlation_id": "c-2"}).encode(),
        b"",
        b"nonsense",
        b"{}",
    ]
    async with a_router(
        settings_for(
            nats_url,
            prefix,
            ingress__enabled=True,
            ingress__confirm_ms=60_000,
            tenants_allowed="acme",
        )
    ):
        receipts = [
            json.loads((await nc.request(INGRESS_SUBJECT, data, timeout=60)).data) for data in sent
        ]
    assert find_faults_in("ingress_ack", receipts, least=11) == []
    assert {one["status"] for one in receipts} == {"accepted", "rejected"}
    assert [one["correlation_id"] for one in receipts[:2]] == ["", "c-1"]


async def test_every_answer_to_operators_has_the_fields_of_its_table(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    fails, well = {"kind": "validator", "timeout_ms": 100}, {"kind": "pre", **CALM}
    entries: dict[str, dict[str, Any]] = {
        "guard": fails,
        "lower": well,
        "gone": {"kind": "pre", **CALM},
    }
    stages = {"pre": [{"id": "lower"}], "validators": [{"id": "guard", "on_fail": "warn"}]}
    await Extension(nc, "pre", "lower", lowers).start()
    policies: dict[str, dict[str, Any]] = {
        "default": stages,
        "strict": {"pre": [{"id": "gone", "mode": "required"}]},
        "plain": {},
    }
    names = {"tenant_id": "acme", "policy_id": "default"}
    async with a_pipeline(PipelinePlace(nats_url, prefix, tmp_path), entries, policies) as (
        _,
        settings,
    ):
        quiet = (await call(nc, "get_extension_health"))["health"]
        await ask_each(nc, settings, list_decided())  # guard is not there: its breaker opens
        busy = (await call(nc, "get_extension_health"))["health"]
        states = (await call(nc, "get_circuit_breaker_states"))["states"]
        dry = [
            await call(nc, "dry_run_pipeline", **names, payload="HI", invoke=invoke)
            for invoke in (False, True)
        ]
        refused = await call(
            nc, "dry_run_pipeline", **{**names, "policy_id": "strict"}, payload=1, invoke=True
        )
        heavy = [
            await call(nc, "get_pipeline_complexity", **{**names, "policy_id": policy})
            for policy in ("default", "plain")
        ]
    assert find_faults_in("extension_health", [*quiet.values(), *busy.values()], least=6) == []
    assert find_faults_in("circuit_breaker_state", states.values(), least=3) == []
    assert [
        state
        for state in states.values()
        if state["state"] == "open" and "opened_at_ms" not in state
    ] == []
    assert {state["state"] for state in states.values()} == {"open", "closed"}
    assert find_faults_in("dry_run", [*dry, refused], least=3) == []
    assert ["error" in one["result"] for one in (*dry, refused)] == [False, False, True]
    assert all(
        ("decision" in one["result"]) != ("error" in one["result"]) for one in (*dry, refused)
    )
    assert find_faults_in("pipeline_complexity", heavy, least=2) == []
