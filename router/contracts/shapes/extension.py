"""What an extension is asked and what it answers (docs/reference/extensions.md#calls), as schemas.

`contracts.extension` writes the request and reads the answers. An answer's schema is made of the
Struct that reads it; that of a request stands here, for its parts are encoded once for many
requests.
"""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts import extension
from router.contracts.answer import build_content_object, build_decision_object
from router.contracts.codec import BASE64
from router.contracts.decision import Decision, RouteRequest
from router.contracts.raw_json import RawJson
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import (
    NULL,
    Schema,
    add_description,
    build_from_type,
    build_object,
    constrain,
    is_present,
    refer,
)

_PAGE = "docs/reference/extensions.md#calls"
_TEXT: Schema = {"type": "string"}


def build_extension_request(_: ShapeLimits) -> MessageShape:
    metadata = build_object(
        {"policy_id": _TEXT, "decision": build_decision_object()},
        ("policy_id",),
        additionalProperties=True,
        description="the routing context and policy_id; for a post-processor the decision as well",
    )
    fields: dict[str, Schema] = {
        "trace_id": refer("id"),
        "tenant_id": refer("scoped_id"),
        "payload": add_description(build_content_object(message_id=refer("id")), "the message"),
        "metadata": metadata,
        "config": {
            "type": "object",
            "description": "of the registry's entry, and over it the policy's",
        },
    }
    return MessageShape(
        name="extension-request",
        title="ExtensionRequest",
        text="What the router asks a pre-processor, a validator or a post-processor.",
        direction=SENT,
        body=build_object(fields, tuple(fields)),
        page=_PAGE,
        examples=_list_request_examples(),
    )


def build_extension_message(_: ShapeLimits) -> MessageShape:
    """A pre- or post-processor's answer."""
    body = build_from_type(extension.ProcessorAnswerWire)
    content = body["properties"]["payload"]
    content["properties"]["message_type"] = refer("optional_type")
    body["properties"]["payload"] = {**content, **_build_encoding_rule()}
    return MessageShape(
        name="extension-message",
        title="ExtensionMessage",
        text=(
            "What a pre-processor or a post-processor answers: the message as it is to go on, "
            "and metadata to add."
        ),
        direction=RECEIVED,
        body=body,
        page=_PAGE,
        examples=(
            {
                "payload": {"message_type": "chat", "payload": {"text": "hello"}},
                "metadata": {"normalized": "true"},
            },
            {"payload": {"payload": "aGVsbG8=", "payload_encoding": BASE64}},
        ),
    )


def build_extension_verdict(_: ShapeLimits) -> MessageShape:
    body = build_from_type(extension.ValidatorAnswerWire)
    body["properties"]["status"] = {"enum": [extension.OK, extension.REJECT, None]}
    has_verdict = {"anyOf": [is_present(("status",), NULL), is_present(("valid",), NULL)]}
    return MessageShape(
        name="extension-verdict",
        title="ExtensionVerdict",
        text=(
            "What a validator answers: status is ok or reject, and valid false reads as "
            "reject. One of both is required."
        ),
        direction=RECEIVED,
        body={**body, **has_verdict},
        page=_PAGE,
        examples=(
            {"status": extension.OK},
            {
                "status": extension.REJECT,
                "reason": "pii_detected",
                "details": {"field": "payload", "pattern": "credit_card"},
            },
            {"valid": False, "reason": "too long"},
        ),
    )


def _build_encoding_rule() -> Schema:
    """A payload beside `payload_encoding` is base64."""
    is_base64 = {
        "allOf": [
            constrain(("payload_encoding",), {"const": BASE64}),
            constrain(("payload",), refer("base64")),
        ]
    }
    return {"if": is_present(("payload_encoding",), NULL), "then": is_base64}


def _list_request_examples() -> tuple[Any, ...]:
    """Written by the code that writes requests to extensions."""
    request = RouteRequest(
        tenant_id="acme",
        message_type="chat",
        payload=RawJson.encode({"text": "Hello"}),
        request_key="r-1",
        answer_id="r-1",
        message_id="m-1",
        metadata={"source": "gateway"},
    )
    decision = Decision(
        "openai", "weighted", 50, 800, 0.012, {"policy_id": "fast", "policy_version": "3"}
    )
    opening, message, context = (
        extension.opening_bytes("6f6ed2e6fc9641768999600d1afbd688", "acme"),
        extension.message_bytes(request),
        {"user_id": "u-1"},
    )
    written = (
        extension.request_bytes(
            opening, message, extension.metadata_bytes(context, "fast"), {"lowercase": True}
        ),
        extension.request_bytes(
            opening, message, extension.metadata_bytes(context, "fast", decision), {}
        ),
    )
    return tuple(map(orjson.loads, written))
