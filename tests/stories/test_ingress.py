"""Messages come in by the ingress subject: a receipt for the sender, a decide request for the
router.
"""

import asyncio
import json
from collections.abc import Awaitable

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from router.contracts.ingress import INGRESS_SUBJECT
from router.contracts.pb.beamline.ingress.v1.ingress_pb2 import IngressAck, IngressMessage
from tests.support.admin import Json, call_on
from tests.support.router_streams import read_stream
from tests.support.service import a_router, settings_for
from tests.support.stories import (
    MessageRecorder,
    has_metric,
    is_ready,
    make_topology,
    read_dead_letters,
    read_last_sequence,
    read_metric,
)
from tests.support.waiting import until

PATIENT = {"ingress__enabled": True, "ingress__confirm_ms": 60_000}  # a busy machine confirms late


def a_message(name: object, **fields: object) -> dict[str, object]:
    return {
        "tenant_id": "acme",
        "message_id": f"m-{name}",
        "type": "chat",
        "payload": {"text": "hello"},
        **fields,
    }


async def send(nc: Client, name: object, **fields: object) -> Json:
    return await call_on(nc, INGRESS_SUBJECT, **a_message(name, **fields))


@pytest.mark.parametrize("confirm", ["decision", "stored"])
async def test_an_accepted_message_stands_in_the_decide_stream_and_is_decided(
    nc: Client, nats_url: str, prefix: str, confirm: str
) -> None:
    settings = settings_for(nats_url, prefix, reply__confirm=confirm, **PATIENT)
    async with a_router(settings):
        replies = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
        ack = await send(nc, 1, correlation_id="c-1", timestamp="2026-01-02T03:04:05Z")
        assert {name: ack[name] for name in ("message_id", "correlation_id", "status")} == {
            "message_id": "m-1",
            "correlation_id": "c-1",
            "status": "accepted",
        }
        assert 1 <= int(ack["metadata"]["sequence"]) <= await read_last_sequence(nc, settings)
        # one whose confirmation is late is stored again, and answered again
        await until(lambda: len(replies) >= 1)
    (answer,) = set(replies.heard[f"{settings.decide.subject}.reply"])
    assert (json.loads(answer)["ok"], json.loads(answer)["context"]["request_id"]) == (True, "m-1")


async def test_the_same_message_again_is_accepted_and_decided_once(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Within the duplicate window the stream drops it, so it is stored again when the window is
    over.
    """
    settings = settings_for(nats_url, prefix, **PATIENT)
    async with a_router(settings) as router:
        acks = [await send(nc, 1) for _ in range(3)]
        assert {ack["status"] for ack in acks} == {"accepted"}

        # two, or more: one whose confirmation is late is stored again
        async def are_all_but_one_replays() -> bool:
            stored = await read_last_sequence(nc, settings)
            return (
                stored >= 3
                and await read_metric(router.ready.http, "router_idempotent_replays_total")
                == stored - 1
            )

        await until(are_all_but_one_replays)


async def test_many_at_once_are_each_accepted(nc: Client, nats_url: str, prefix: str) -> None:
    settings = settings_for(nats_url, prefix, **PATIENT)
    async with a_router(settings), a_router(settings):
        acks = await asyncio.gather(*(send(nc, name) for name in range(200)))
        assert {ack["status"] for ack in acks} == {"accepted"}
        # one whose confirmation is late is stored again
        stored = await read_stream(nc, settings.streams.decide.name)
        assert len({headers["Nats-Msg-Id"] for _, _, headers in stored}) == 200


async def test_above_so_many_in_hand_a_message_is_told_to_come_again(
    nc: Client, nats_url: str, prefix: str
) -> None:
    async with a_router(settings_for(nats_url, prefix, ingress__at_once=1, **PATIENT)):
        acks = await asyncio.gather(*(send(nc, name) for name in range(50)))
    assert {(ack["status"], ack.get("error_code")) for ack in acks} == {
        ("accepted", None),
        ("error", "overloaded"),
    }


async def test_a_receipt_goes_to_an_inbox_and_nowhere_else(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = settings_for(nats_url, prefix, **PATIENT)
    async with a_router(settings) as router:
        victim = await nc.subscribe("beamline.victim")
        await nc.publish(
            INGRESS_SUBJECT, json.dumps(a_message(1)).encode(), reply="beamline.victim"
        )
        assert (await send(nc, 2))["status"] == "accepted"
        assert await read_last_sequence(nc, settings) >= 2
        await until(lambda: has_metric(router.ready.http, "router_reply_refused_total", 1))
        await nc.flush()
        assert victim.pending_msgs == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tenant_id": None}, "invalid_request"),
        ({"message_id": None}, "invalid_request"),
        ({"type": None}, "invalid_request"),
        ({"payload": None}, "invalid_request"),
        ({"message_id": "a b"}, "invalid_request"),
        ({"timestamp": "yesterday"}, "invalid_request"),
        ({"metadata": []}, "invalid_request"),
        ({"payload": "%", "payload_encoding": "base64"}, "invalid_request"),
        ({"tenant_id": "evil"}, "unauthorized"),
    ],
)
async def test_what_the_decide_consumer_would_refuse_is_rejected_and_leaves_nothing(
    nc: Client, nats_url: str, prefix: str, fields: dict[str, object], error: str
) -> None:
    settings = settings_for(nats_url, prefix, ingress__enabled=True, tenants_allowed="acme")
    async with a_router(settings):
        ack = await send(nc, 1, **fields)
        assert (ack["status"], ack["error_code"]) == ("rejected", error)
        assert (await read_last_sequence(nc, settings), await read_dead_letters(nc, settings)) == (
            0,
            [],
        )


async def test_protobuf_is_taken_and_given(nc: Client, nats_url: str, prefix: str) -> None:
    settings = settings_for(nats_url, prefix, **PATIENT)
    message = IngressMessage(
        message_id="m-1",
        tenant_id="acme",
        message_type="chat",
        payload=b"\xff\x00",
        metadata={"a": "b"},
    )
    async with a_router(settings):
        answer = await nc.request(
            INGRESS_SUBJECT,
            message.SerializeToString(),
            headers={"Accept": "application/x-protobuf"},
        )
    ack = IngressAck.FromString(answer.data)
    assert (ack.status, ack.message_id) == ("accepted", "m-1")
    assert int(ack.metadata["sequence"]) >= 1


async def test_when_it_cannot_be_seen_stored_the_receipt_says_error(
    nc: Client, nats_url: str, prefix: str
) -> None:
    # which makes none anew
    settings = settings_for(
        nats_url, prefix, topology="check", ingress__enabled=True, ingress__confirm_ms=300
    )
    await make_topology(settings)
    async with a_router(settings) as router:
        await nc.jetstream().delete_stream(settings.streams.decide.name)
        ack = await send(nc, 1)
        assert (ack["status"], ack["error_code"]) == ("error", "internal")
        await until(lambda: _is(is_ready(router.ready.http), False))


async def test_it_is_off_by_default(nc: Client, nats_url: str, prefix: str) -> None:
    async with a_router(settings_for(nats_url, prefix)):
        with pytest.raises(NoRespondersError):
            await send(nc, 1)


async def _is(found: Awaitable[object], wanted: object) -> bool:
    return await found == wanted
