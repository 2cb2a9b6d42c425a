"""A decide request in its four JSON forms (docs/reference/contracts.md#decide-requests); form e is
protobuf.

`properties` says what each field is; `allOf` says which of several places of a field counts and
must therefore be legal. It follows `decide.model.fields`, reader by reader.
"""

from __future__ import annotations

from typing import Any

from router.contracts.codec import BASE64
from router.contracts.decision import (
    MAX_IDEMPOTENCY_KEY,
    MAX_NAMED_PROVIDERS,
    MAX_REFERENCE,
    PUSH_VALUES,
)
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits
from router.contracts.shapes.parts import (
    NEVER,
    NULL,
    Path,
    Schema,
    add_description,
    build_object,
    constrain,
    find_first,
    is_anywhere_present,
    is_present,
    refer,
)
from router.core import ids

_WORKFLOW = ("run_id", "flow_id", "step_id")
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1
_TIMESTAMP: Schema = {"type": "integer", "minimum": _MIN_INT64, "maximum": _MAX_INT64}
_IDEMPOTENCY_KEY: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY}
_REFERENCE: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_REFERENCE}
_PROVIDER_NAMES: Schema = {
    "type": ["array", "null"],
    "minItems": 1,
    "maxItems": MAX_NAMED_PROVIDERS,
    "items": {"type": "string", "pattern": f"^{ids.PROVIDER_PATTERN}$"},
}
_PUSH_FIELD: Schema = {
    "enum": [None, *PUSH_VALUES, 1, 0],
    "description": "true: an assignment is published for a worker as well",
}


_RETURNS_OR_PUSHES: Schema = {
    "not": {
        "allOf": [
            is_present(("return_message",), (None, False)),
            is_present(("push_assignment",), (None, False, "false", 0)),
        ]
    }
}


def build_decide(limits: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="decide",
        title="RouteRequest",
        text="A request for a routing decision, in one of four forms: everything in `message` "
        "with `policy_id` and `context` beside it;"
        " a `task` with the ids beside it; a `message` with the ids beside it; or flat. "
        "Each form needs a tenant, a type, and a payload or"
        " payload_ref.",
        direction=RECEIVED,
        body=_build_body(limits),
        page="docs/reference/contracts.md#decide-requests",
        examples=EXAMPLES,
        proto="beamline.flow.v1.RouteRequest",
    )


def _build_body(limits: ShapeLimits) -> dict[str, Any]:
    subjects = [None, *limits.assignment_subjects]
    properties: dict[str, Schema] = {
        "version": {"description": 'the version of the contract: "1"'},
        "tenant_id": add_description(refer("optional_scoped_id"), "whose request it is"),
        "request_id": add_description(
            refer("optional_id"), "the request's id; the answer's context has it"
        ),
        "message_id": refer("optional_id"),
        "trace_id": refer("optional_id"),
        "policy_id": add_description(
            refer("optional_scoped_id"), "the policy that decides; `default` where none is named"
        ),
        "idempotency_key": {
            "anyOf": [_IDEMPOTENCY_KEY, {"type": "null"}],
            "description": "requests with the same key are one request",
        },
        "message": {"type": ["object", "null"], "properties": _list_message_fields()},
        "task": {"type": ["object", "null"], "properties": _list_content_fields("type")},
        **_list_content_fields("message_type"),
        "constraints": _build_constraints(),
        "metadata": refer("object"),
        "context": add_description(refer("object"), "what a policy's conditions read"),
        "timestamp_ms": {
            **_TIMESTAMP,
            "type": ["integer", "null"],
            "description": "milliseconds since the epoch",
        },
        "push_assignment": _PUSH_FIELD,
        "return_message": {
            "type": ["boolean", "null"],
            "description": "true: the answer holds what the pre-processors left of the message; "
            "not beside push_assignment",
        },
        "assignment_subject": {
            "enum": subjects,
            "description": "where the assignment goes; the first one unless it says so",
        },
        **{
            name: add_description(refer("optional_id"), "of a workflow; all three or none")
            for name in _WORKFLOW
        },
    }
    return build_object(
        properties,
        allOf=[
            _build_tenant(),
            _build_version(),
            *_list_ids(),
            _build_workflow(),
            _build_content(),
            _RETURNS_OR_PUSHES,
        ],
    )


def _build_constraints() -> Schema:
    fields: dict[str, Schema] = {
        "max_latency_ms": {"description": "no provider that is known to be slower, milliseconds"},
        "max_cost": {"description": "no provider that is known to cost more"},
        "providers": add_description(
            _PROVIDER_NAMES, f"none but these, 1..{MAX_NAMED_PROVIDERS} names; null is absent"
        ),
        "excluded_providers": add_description(
            _PROVIDER_NAMES, f"none of these, 1..{MAX_NAMED_PROVIDERS} names; null is absent"
        ),
    }
    return {
        "type": ["object", "null"],
        "properties": fields,
        # what else stands here is read by conditions
        "additionalProperties": True,
        "description": "whom the decision may choose; null is absent",
    }


def _list_message_fields() -> dict[str, Schema]:
    names = (
        "tenant_id",
        "message_id",
        "trace_id",
        "request_id",
        "version",
        "idempotency_key",
        "timestamp_ms",
        *_WORKFLOW,
    )
    beside = "; the same field beside `message` goes before it"
    return {
        **{name: {"description": name.replace("_", " ") + beside} for name in names},
        "metadata": refer("object"),
        **_list_content_fields("message_type"),
    }


def _list_content_fields(type_field: str) -> dict[str, Schema]:
    alias: Schema = (
        {}
        if type_field == "type"
        else {"type": {"description": f"as {type_field}, which goes before it"}}
    )
    return {
        type_field: {"description": "the type of the message, 1..256 characters"},
        **alias,
        "payload": {"description": "any JSON value"},
        "payload_encoding": {"description": f'"{BASE64}" where the payload is bytes in base64'},
        "payload_ref": {
            "description": f"where the payload is, 1..{MAX_REFERENCE} characters, where it is not here"
        },
    }


def _list_places(name: str) -> tuple[Path, Path]:
    """The two places of a field: beside `message`, and in it."""
    return (name,), ("message", name)


def _build_tenant() -> Schema:
    return find_first(_list_places("tenant_id"), refer("scoped_id"), otherwise=NEVER)


def _build_version() -> Schema:
    places: tuple[Path, ...] = (
        ("version",),
        ("schema_version",),
        ("message", "version"),
        ("message", "schema_version"),
    )
    return find_first(places, refer("version"), absent=NULL)


def _list_ids() -> list[Schema]:
    return [
        *(
            find_first(_list_places(name), refer("id"))
            for name in ("trace_id", "request_id", "message_id", *_WORKFLOW)
        ),
        find_first(_list_places("idempotency_key"), _IDEMPOTENCY_KEY, absent=NULL),
        find_first(_list_places("timestamp_ms"), _TIMESTAMP, absent=NULL),
    ]


def _build_workflow() -> Schema:
    """All three or none."""
    given = [is_anywhere_present(_list_places(name)) for name in _WORKFLOW]
    return {"anyOf": [{"allOf": given}, {"not": {"anyOf": given}}]}


def _build_content() -> Schema:
    """Type and payload stand in `message`, then in `task`; of a request that has neither, at the
    top.
    """
    is_nested = is_anywhere_present((("message",), ("task",)), NULL)
    nested = _list_content_rules(
        (("message", "message_type"), ("message", "type"), ("task", "type")),
        (("message",), ("task",)),
    )
    flat = _list_content_rules((("message_type",), ("type",)), ((),))
    return {"if": is_nested, "then": {"allOf": nested}, "else": {"allOf": flat}}


def _list_content_rules(types: tuple[Path, ...], parts: tuple[Path, ...]) -> list[Schema]:
    references = tuple((*part, "payload_ref") for part in parts)
    payload = find_first(references, _REFERENCE, absent=NULL, otherwise=NEVER)
    for part in reversed(parts):
        payload = {
            "if": is_present((*part, "payload"), NULL),
            "then": _build_encoding_rule(part),
            "else": payload,
        }
    return [find_first(types, refer("type"), otherwise=NEVER), payload]


def _build_encoding_rule(part: Path) -> Schema:
    """A payload beside `payload_encoding` is base64."""
    is_encoded = is_present((*part, "payload_encoding"), NULL)
    return {
        "if": is_encoded,
        "then": {
            "allOf": [
                constrain((*part, "payload_encoding"), {"const": BASE64}),
                constrain((*part, "payload"), refer("base64")),
            ]
        },
    }


EXAMPLES: tuple[Any, ...] = (
    {
        "message": {
            "message_id": "m-1",
            "tenant_id": "acme",
            "message_type": "chat",
            "payload": {"text": "Hello"},
            "metadata": {"source": "gateway"},
        },
        "policy_id": "fast",
        "context": {"user_id": "u-1"},
    },
    {
        "version": "1",
        "tenant_id": "acme",
        "request_id": "3f1c0d1e-9d1b-4f5a-8f0e-0a3a5b8f2c11",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "task": {"type": "summarise", "payload_ref": "s3://documents/17"},
        "constraints": {"max_latency_ms": 2000, "excluded_providers": ["openai"]},
        "metadata": {"source": "batch"},
        "push_assignment": True,
    },
    {
        "version": "1",
        "tenant_id": "acme",
        "request_id": "r-2",
        "trace_id": "t-2",
        "message": {
            "message_type": "image",
            "payload": "iVBORw0KGgo=",
            "payload_encoding": "base64",
        },
    },
    {
        "tenant_id": "acme",
        "message_type": "chat",
        "payload": "Hello",
        "message_id": "m-4",
        "idempotency_key": "order 17",
    },
)
