"""A payload is not ours to write anew: numbers of any length, escapes, repeated keys and their
order arrive as they were sent.

What the router itself reads has bounds, and is refused with the name of its field
(docs/reference/contracts.md#bounds).
"""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import decode
from nats.aio.client import Client
from nats.aio.msg import Msg

from router import ExecAssignment, StepResult, Worker
from router.config import Settings
from router.contracts.ingress import INGRESS_SUBJECT
from router.work.commands.workers import make_places
from tests.support.any_json import SAMPLES
from tests.support.extension_pipeline import Extension, PipelinePlace, a_pipeline
from tests.support.router_streams import read_stream
from tests.support.sdk import run_workers
from tests.support.service import a_router, settings_for
from tests.support.stories import MessageRecorder, ask
from tests.support.waiting import until

# the careful reader's
LARGE = b'{"text":"%b","id":18446744073709551616,"rate":0.1234567890123456789012345}' % (
    b"x" * 20_000
)
PAYLOADS = {**SAMPLES, "large": LARGE}
FORMS = {
    "a": b'{"message":{"tenant_id":"acme","message_type":"chat","payload":%b},"request_id":"%b","push_assignment":true}',
    "b": b'{"task":{"type":"chat","payload":%b},"tenant_id":"acme","request_id":"%b","push_assignment":true}',
    "c": b'{"message":{"message_type":"chat","payload":%b},"tenant_id":"acme","request_id":"%b","push_assignment":true}',
    "d": b'{"message_type":"chat","payload":%b,"tenant_id":"acme","request_id":"%b","push_assignment":true}',
    "carefully": b'{"message_type":"chat","payload":%b,"tenant_id":"acme","request_id":"%b","push_assignment":true,"foo":1e999}',
}


def find_text(data: bytes, *path: str) -> bytes:
    """The bytes of one part of a JSON object."""
    for name in path:
        data = bytes(decode(data, type=dict[str, Raw])[name])
    return data


async def read_payloads(nc: Client, stream: str) -> dict[str, bytes]:
    """What each stored assignment carries, by its request."""
    stored = [data for _, data, _ in await read_stream(nc, stream)]
    return {
        json.loads(find_text(data, "request_id")): find_text(data, "job", "payload")
        for data in stored
    }


@pytest.mark.parametrize("form", FORMS)
async def test_an_assignment_carries_the_payload_as_it_was_sent(
    nc: Client, settings: Settings, form: str
) -> None:
    async with a_router(settings):
        asked = {f"r-{number}": payload for number, payload in enumerate(PAYLOADS.values())}
        answers = await asyncio.gather(
            *(
                ask(nc, settings, FORMS[form] % (payload, of.encode()))
                for of, payload in asked.items()
            )
        )
        assert [answer for answer in answers if not answer["ok"]] == []
        assert await read_payloads(nc, settings.streams.assignments.name) == asked


TOO_LARGE: Mapping[str, Any] = {
    "context": ({"context": {"size": 2**64}}, "context"),
    "context, deep": ({"context": {"of": [{"size": -(2**63) - 1}]}}, "context"),
    "constraints": ({"constraints": {"max_cost": 10**30}}, "constraints"),
    "metadata": (
        {
            "metadata": {"id": 2**64},
            "message_type": "chat",
            "payload": "x",
            "tenant_id": "acme",
            "message": None,
        },
        "metadata",
    ),
    "message.metadata": (
        {"message": {"metadata": {"id": 2**64}, "message_type": "chat", "payload": "x"}},
        "message.metadata",
    ),
    "timestamp": ({"timestamp_ms": 2**64}, "timestamp_ms"),
}


async def test_an_integer_of_more_than_64_bits_in_a_field_that_is_read_is_refused_by_name(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings):
        message = {"message_type": "chat", "payload": "x"}
        for name, (fields, place) in TOO_LARGE.items():
            body = json.dumps(
                {"tenant_id": "acme", "request_id": "r-1", "message": message, **fields}
            ).encode()
            answer = await ask(nc, settings, body)
            assert (name, answer["error"]["code"], answer["error"]["details"]["field"]) == (
                name,
                "invalid_request",
                place,
            )
        beyond = b'{"tenant_id":"acme","request_id":"r-2","message":{"message_type":"chat","payload":1},"context":{"size":1e999}}'
        assert (await ask(nc, settings, beyond))["error"]["details"]["field"] == "context"


async def test_requests_whose_numbers_differ_beyond_a_double_are_not_the_same(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings, form = settings_for(nats_url, prefix), FORMS["a"]
    pairs = {
        b"whole": (
            b'{"a":18446744073709551616,"b":1}',
            b'{"b":1,"a":18446744073709551616}',
            b'{"a":18446744073709551617,"b":1}',
        ),
        b"part": (
            b'{"a":0.1234567890123456789,"b":1}',
            b'{"b":1,"a":0.1234567890123456789}',
            b'{"a":0.1234567890123456788,"b":1}',
        ),
        b"huge": (b'{"a":1e999,"b":1}', b'{"b":1,"a":1e999}', b'{"a":2e999,"b":1}'),
    }
    async with a_router(settings):
        for name, (first, other_order, other) in pairs.items():
            answers = [
                await ask(nc, settings, form % (payload, name))
                for payload in (first, other_order, other)
            ]
            assert [answer["ok"] for answer in answers] == [True, True, False], name
            assert answers[2]["error"]["code"] == "invalid_request"


async def test_a_worker_reads_exact_numbers_and_its_answer_has_them(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings, form = settings_for(nats_url, prefix), FORMS["a"]
    read: dict[bytes, object] = {}

    def handle(assignment: ExecAssignment) -> StepResult:
        read[assignment.payload_bytes] = assignment.payload
        return StepResult(
            output=assignment.raw_payload
            if b"." in assignment.payload_bytes
            else assignment.payload
        )

    async with a_router(settings):
        results = await MessageRecorder.on(nc, settings.results.subject)
        subject = settings.assignment.subjects[0]
        async with run_workers(
            Worker(
                settings.nats,
                handle,
                worker_id="w-1",
                subject=subject,
                topology=make_places(settings),
            )
        ):
            for number, payload in enumerate(NUMBERS):
                assert (await ask(nc, settings, form % (payload, b"r-%d" % number)))["ok"]
            await until(lambda: len(results) >= len(NUMBERS))
    (answers,) = results.heard.values()
    assert read == {payload: json.loads(payload) for payload in NUMBERS}
    assert {find_text(answer, "payload") for answer in answers} == set(NUMBERS)


NUMBERS = (
    b"18446744073709551616",
    b"123456789012345678901234567890",
    b"[0.1234567890123456789,1.50]",
    b'{"z":-18446744073709551616}',
)


async def test_extensions_are_asked_with_the_payload_as_it_was_sent(
    nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    """One answers the same values, written anew as its library writes them; one wraps the text that
    came.
    """

    async def writes_anew(message: Msg) -> None:
        await message.respond(json.dumps({"payload": json.loads(message.data)["payload"]}).encode())

    async def wraps(message: Msg) -> None:
        await message.respond(
            b'{"payload":{"payload":[%b]}}' % find_text(message.data, "payload", "payload")
        )

    place, payload = (
        PipelinePlace(nats_url, prefix, tmp_path),
        b'{ "id":18446744073709551616, "at":0.1234567890123456789012345, "b":1.50 }',
    )
    entries = {name: {"kind": "pre", "timeout_ms": 20_000} for name in ("anew", "wrap")}
    anew, wrap = (
        await Extension(nc, "pre", "anew", writes_anew).start(),
        await Extension(nc, "pre", "wrap", wraps).start(),
    )
    async with a_pipeline(
        place, entries, {"default": {"pre": [{"id": "anew"}, {"id": "wrap"}]}}
    ) as (_, settings):
        assert (await ask(nc, settings, FORMS["a"] % (payload, b"r-1")))["ok"]
        assert [find_text(one.asked[0].data, "payload", "payload") for one in (anew, wrap)] == [
            payload,
            payload,
        ]
        assert await read_payloads(nc, settings.streams.assignments.name) == {
            "r-1": b"[%b]" % payload
        }


async def test_an_ingress_message_becomes_a_request_with_its_payload_as_it_was_sent(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, ingress__enabled=True, ingress__confirm_ms=60_000)
    async with a_router(settings):
        for number, payload in enumerate(SAMPLES.values()):
            sent = b'{"tenant_id":"acme","message_id":"m-%d","type":"chat","payload":%b}' % (
                number,
                payload,
            )
            assert (
                json.loads((await nc.request(INGRESS_SUBJECT, sent, timeout=60)).data)["status"]
                == "accepted"
            )
        stored = [data for _, data, _ in await read_stream(nc, settings.streams.decide.name)]
        assert {find_text(data, "message", "payload") for data in stored} == set(SAMPLES.values())
        refused = b'{"tenant_id":"acme","message_id":"m-x","type":"chat","payload":1,"metadata":{"id":18446744073709551616}}'
        assert (
            "metadata"
            in json.loads((await nc.request(INGRESS_SUBJECT, refused, timeout=60)).data)["message"]
        )
