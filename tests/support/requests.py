"""Decide requests: one content in every form, and messages that carry them."""

from collections.abc import Mapping
from typing import Any

import orjson

from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.core.message import Message

SUBJECT = "beamline.router.v1.decide"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
GOOD_HEADERS = {"trace_id": TRACE, "tenant_id": "acme", "version": "1", "Nats-Msg-Id": "n-1"}


def a_message(
    data: bytes | Mapping[str, Any] = b"", headers: Mapping[str, str] | None = None, **facts: Any
) -> Message:
    facts = {
        "subject": SUBJECT,
        "stream": "ROUTER_DECIDE",
        "consumer": "router-decide-consumer",
        "sequence": 7,
        **facts,
    }
    facts = {"stored_ns": 1_700_000_000_123_456_789, "deliveries": 1, "ack_subject": "", **facts}
    return Message(
        data=data if isinstance(data, bytes) else orjson.dumps(data), headers=headers or {}, **facts
    )


def a_body(**fields: Any) -> dict[str, Any]:
    """The smallest valid request (form a); `fields` go into `message`."""
    return {"message": {"tenant_id": "acme", "message_type": "chat", "payload": "hello", **fields}}


def every_form() -> dict[str, Message]:
    """The same request in the five forms, in the letters of
    docs/reference/contracts.md#decide-requests.
    """
    message = {
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": "hello",
        "message_id": "m-1",
        "trace_id": "t-1",
    }
    beside = {"request_id": "r-1", "policy_id": "gold", "push_assignment": True}
    whole = {"metadata": {"source": "gateway"}, "context": {"user_id": "u-1"}}
    bare = {"message_type": "chat", "payload": "hello"}
    return {
        "a": a_message(
            {
                "message": {**message, "metadata": whole["metadata"]},
                "context": whole["context"],
                **beside,
            }
        ),
        "b": a_message(
            {"task": {"type": "chat", "payload": "hello"}, **_ids(message), **beside, **whole}
        ),
        "c": a_message(
            {
                "message": {**bare, "metadata": whole["metadata"]},
                "context": whole["context"],
                **_ids(message),
                **beside,
            }
        ),
        "d": a_message({**message, **beside, **whole}),
        "e": a_message(a_protobuf(), {"request_id": "r-1", "push_assignment": "true"}),
    }


def a_protobuf(**fields: Any) -> bytes:
    """Form e, the content of `every_form`; `fields` replace those of its Message."""
    given = {
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": b"hello",
        "message_id": "m-1",
        "trace_id": "t-1",
    }
    message = flow_pb2.Message(**{**given, "metadata": {"source": "gateway"}, **fields})
    return flow_pb2.RouteRequest(
        message=message, policy_id="gold", context={"user_id": "u-1"}
    ).SerializeToString()


def _ids(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: message[name] for name in ("tenant_id", "message_id", "trace_id")}
