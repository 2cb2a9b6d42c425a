"""An ingress message as the decide request that it becomes, and its receipt."""

from typing import Any

import orjson
import pytest

from router.contracts.decision import RouteRequest
from router.contracts.ingress import (
    IngressAck,
    IngressRequest,
    ack_bytes,
    ack_protobuf,
    ids_of,
    read_body_of,
    read_ingress,
)
from router.contracts.malformed import Malformed
from router.contracts.pb.beamline.ingress.v1 import ingress_pb2
from router.contracts.raw_json import RawJson
from router.contracts.worker import WorkerMessageLimits
from router.decide.model.read import read
from tests.support.requests import TRACEPARENT, a_message

GOOD = {
    "message_id": "m-1",
    "tenant_id": "acme",
    "message_type": "chat",
    "payload": {"text": "hello"},
}


def ingress(headers: dict[str, str] | None = None, /, **fields: Any) -> IngressRequest:
    return read_ingress(
        read_body_of(orjson.dumps({**GOOD, **fields}), WorkerMessageLimits()), headers or {}
    )


def asked(message: IngressRequest) -> RouteRequest:
    """As the decide handler reads it."""
    request = read(a_message(message.body, dict(message.headers))).asked
    assert isinstance(request, RouteRequest), request
    return request


def test_every_field_of_s4_reaches_the_request() -> None:
    given = {
        "correlation_id": "c-1",
        "trace_id": "t-1",
        "metadata": {"a": "b"},
        "timestamp_ms": 7,
        "policy_id": "gold",
    }
    request = asked(ingress(**given))
    assert (request.tenant_id, request.message_type, request.payload) == (
        "acme",
        "chat",
        RawJson.encode({"text": "hello"}),
    )
    assert (request.answer_id, request.trace_id, request.policy_id, request.timestamp_ms) == (
        "m-1",
        "t-1",
        "gold",
        7,
    )
    assert request.context == {"a": "b", "correlation_id": "c-1"}


def test_s3_says_type_and_an_iso_timestamp() -> None:
    request = asked(ingress(message_type=None, type="image", timestamp="1970-01-01T00:00:01Z"))
    assert (request.message_type, request.timestamp_ms) == ("image", 1000)


def test_protobuf_becomes_the_same_request() -> None:
    sent = ingress_pb2.IngressMessage(
        message_id="m-1",
        tenant_id="acme",
        message_type="chat",
        payload=b"hello",
        correlation_id="c-1",
    )
    message = read_ingress(read_body_of(sent.SerializeToString(), WorkerMessageLimits()), {})
    assert asked(message) == asked(ingress(payload="hello", correlation_id="c-1", metadata={}))


def test_bytes_that_are_no_text_survive() -> None:
    sent = ingress_pb2.IngressMessage(
        message_id="m-1", tenant_id="acme", message_type="chat", payload=b"\xff\x00"
    )
    assert (
        asked(
            read_ingress(read_body_of(sent.SerializeToString(), WorkerMessageLimits()), {})
        ).payload
        == b"\xff\x00"
    )


def test_the_id_is_a_digest_of_tenant_and_message_id_and_no_two_share_one() -> None:
    ids = {
        ingress().headers["Nats-Msg-Id"],
        ingress(payload="other").headers["Nats-Msg-Id"],
        ingress(message_id="m-2").headers["Nats-Msg-Id"],
        ingress(tenant_id="acmem", message_id="-1").headers["Nats-Msg-Id"],
    }
    assert len(ids) == 3


def test_the_headers_tenant_holds_and_a_trace_goes_along() -> None:
    headers = ingress(
        {"tenant_id": "beta", "traceparent": TRACEPARENT, "Reply-To": "beamline.x", "Nats-TTL": "1"}
    ).headers
    assert headers == {
        "Nats-Msg-Id": headers["Nats-Msg-Id"],
        "tenant_id": "beta",
        "version": "1",
        "traceparent": TRACEPARENT,
    }


@pytest.mark.parametrize("field", ["message_id", "tenant_id"])
def test_without_its_ids_it_is_refused_by_their_names(field: str) -> None:
    with pytest.raises(Malformed) as caught:
        ingress(**{field: None})
    assert caught.value.field == field


def test_a_receipt_calls_a_refused_message_by_what_could_be_read() -> None:
    assert ids_of({"message_id": "m-1", "correlation_id": "a b"}) == {"message_id": "m-1"}


def test_a_receipt_has_its_ids_always_and_is_the_same_in_both_encodings() -> None:
    ack = IngressAck(
        status="accepted", timestamp_ms=7, message_id="m-1", metadata={"sequence": "3"}
    )
    told = {
        "status": "accepted",
        "timestamp_ms": 7,
        "message_id": "m-1",
        "correlation_id": "",
        "metadata": {"sequence": "3"},
    }
    assert orjson.loads(ack_bytes(ack)) == told
    packed = ingress_pb2.IngressAck.FromString(ack_protobuf(ack))
    assert {name: getattr(packed, name) for name in told} == told
