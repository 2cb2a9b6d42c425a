"""The fields of a decide request, one reader each (docs/reference/contracts.md#decide-requests).

A reader takes the top level (`body`) and the `message` part (`inner`), top level first, null as
absent, and returns a value of the right kind or raises Malformed naming the RouteRequest's place.
An empty string is missing for ids and types only. In a flat request both parts are the same object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from router.contracts.codec import BASE64, bytes_of
from router.contracts.decision import (
    CONSTRAINTS,
    MAX_IDEMPOTENCY_KEY,
    MAX_NAMED_PROVIDERS,
    MAX_REFERENCE,
    NOTHING,
    PUSH_VALUES,
    RESERVED,
    RESERVED_TYPES,
    RouteRequest,
)
from router.contracts.headers import is_supported_version
from router.contracts.malformed import (
    CORRELATION_FIELDS_INVALID,
    STAGE_CORRELATION,
    STAGE_VERSION,
    VERSION_UNSUPPORTED,
    Malformed,
    invalid_correlation,
    invalid_field,
    missing_field,
)
from router.contracts.raw_json import (
    DIGITS,
    NUMBERS,
    RawJson,
    has_endless_number,
    has_long_integer,
    payload_of,
)
from router.core import ids

Object = Mapping[str, Any]

DEFAULT_POLICY = "default"
OPAQUE = "1..128 printable ASCII characters without spaces"
SCOPED = "1..128 of A-Z a-z 0-9 _ . : - and not start with . or _"

_WORKFLOW = ("run_id", "flow_id", "step_id")
# What few requests carry: asked for together, so that the others pay for one look.
RARE = frozenset(
    {
        "idempotency_key",
        "assignment_subject",
        "payload_ref",
        "payload_encoding",
        "return_message",
        *_WORKFLOW,
    }
)
_INT64 = range(-(2**63), 2**63)
_PROVIDER = re.compile(ids.PROVIDER_PATTERN)
_LISTS = ("providers", "excluded_providers")
_NAMED = f"a list of 1..{MAX_NAMED_PROVIDERS} names of providers"

is_scoped = ids.ScopedNames().__getitem__


def split_parts(body: Object) -> tuple[Object, Object]:
    """The `message` and the `task` of any form; of a flat request, itself and nothing."""
    inner, task = body.get("message"), body.get("task")
    if inner is None and task is None:
        if "message_type" not in body and "payload" not in body and "payload_ref" not in body:
            raise missing_field("message", "message")
        return body, NOTHING
    return inner if type(inner) is dict else read_object(inner, "message"), task if type(
        task
    ) is dict else read_object(task, "task")


def check_version(header: str | None, body: Object, inner: Object) -> None:
    """Header, payload, then the subject's own `.v1`; `schema_version` reads as `version`."""
    version: object = header
    if not header:
        version = _find_first(
            body.get("version"),
            body.get("schema_version"),
            inner.get("version"),
            inner.get("schema_version"),
        )
    if version is not None and not is_supported_version(version):
        raise Malformed(
            VERSION_UNSUPPORTED,
            'Unsupported version: this subject speaks "1"',
            STAGE_VERSION,
            "version",
        )


def read_tenant(body: Object, inner: Object) -> str:
    value = body.get("tenant_id")
    if value is None or value == "":
        value = inner.get("tenant_id")
    if value is None or value == "":
        raise missing_field("tenant_id", "message.tenant_id")
    if type(value) is not str or not is_scoped(value):
        raise invalid_field("tenant_id", "message.tenant_id", SCOPED)
    return value


def read_message_type(inner: Object, task: Object) -> str:
    """`read_message_type`, its alias `type`, or the task's `type`."""
    for value in (inner.get("message_type"), inner.get("type"), task.get("type")):
        if value is None or value == "":
            continue
        # What is billed under these types would look like an adjustment, or like an invocation,
        # which waits for no result.
        if type(value) is not str or len(value) > ids.MAX_TYPE or value in RESERVED_TYPES:
            legal = f"text of 1..{ids.MAX_TYPE} characters, {RESERVED}"
            raise invalid_field("message_type", "message.message_type", legal)
        return value
    raise missing_field("message_type", "message.message_type")


def read_payload(inner: Object, task: Object) -> RawJson | bytes | None:
    """The message's payload or the task's; None when a `read_payload_ref` stands for it."""
    payload: RawJson | bytes | None = inner.get("payload")
    if payload is None:
        payload = task.get("payload")
    if payload is None and inner.get("payload_ref") is None and task.get("payload_ref") is None:
        raise missing_field("payload", "message.payload")
    if type(payload) is RawJson and has_endless_number(payload.data):
        raise invalid_field("payload", "message.payload", DIGITS)
    return payload


def read_rare_fields(
    body: Object, inner: Object, task: Object, allowed_subjects: tuple[str, ...]
) -> dict[str, Any]:
    """The RARE ones as fields of a RouteRequest."""
    run_id, flow_id, step_id = read_workflow(body, inner)
    return {
        **read_payload_fields(inner, task),
        "idempotency_key": read_idempotency_key(body, inner),
        "assignment_subject": read_assignment_subject(
            body.get("assignment_subject"), allowed_subjects
        ),
        "run_id": run_id,
        "flow_id": flow_id,
        "step_id": step_id,
        "return_message": read_return_message(body.get("return_message")),
    }


def read_payload_fields(inner: Object, task: Object) -> dict[str, object]:
    """The payload, turned back to bytes when `payload_encoding` beside it says base64 (text if
    those are UTF-8), or its reference.
    """
    place = inner if inner.get("payload") is not None else task
    payload, encoding = place.get("payload"), place.get("payload_encoding")
    if payload is None:
        return {"payload_ref": read_payload_ref(inner, task)}
    if encoding is None:
        return {}
    try:
        return {"payload": payload_of(bytes_of(payload.read(), encoding))}
    except (ValueError, TypeError, AttributeError) as exc:
        raise invalid_field(
            "payload", "message.payload", f"{BASE64} text when payload_encoding is given"
        ) from exc


def read_payload_ref(inner: Object, task: Object) -> str:
    value = _find_first(inner.get("payload_ref"), task.get("payload_ref"))
    if type(value) is not str or not 1 <= len(value) <= MAX_REFERENCE:
        raise invalid_field(
            "payload_ref", "message.payload_ref", f"text of 1..{MAX_REFERENCE} characters"
        )
    return value


def read_id(name: str, place: str, body: Object, inner: Object) -> str | None:
    value = body.get(name)
    if value is None or value == "":
        value = inner.get(name)
        if value is None or value == "":
            return None
    if type(value) is not str or not ids.is_opaque(value):
        raise invalid_correlation(name, place, OPAQUE)
    return value


def read_idempotency_key(body: Object, inner: Object) -> str | None:
    value = _find_first(body.get("idempotency_key"), inner.get("idempotency_key"))
    if value is None:
        return None
    if type(value) is not str or not 1 <= len(value) <= MAX_IDEMPOTENCY_KEY:
        raise invalid_correlation(
            "idempotency_key", "idempotency_key", f"text of 1..{MAX_IDEMPOTENCY_KEY} characters"
        )
    return value


def read_workflow(body: Object, inner: Object) -> tuple[str | None, str | None, str | None]:
    """run, flow and step id: all of them or none."""
    workflow_ids = [read_id(name, f"message.{name}", body, inner) for name in _WORKFLOW]
    if any(workflow_ids) and not all(workflow_ids):
        name = _WORKFLOW[workflow_ids.index(None)]
        raise Malformed(
            CORRELATION_FIELDS_INVALID,
            f"Missing required field: {name}",
            STAGE_CORRELATION,
            f"message.{name}",
        )
    return workflow_ids[0], workflow_ids[1], workflow_ids[2]


def read_object(value: object, place: str) -> Object:
    if value is None:
        return NOTHING
    if type(value) is RawJson or has_long_integer(value):
        raise invalid_field(place.removeprefix("message."), place, NUMBERS)
    if type(value) is not dict:
        raise invalid_field(place.removeprefix("message."), place, "an object")
    return value


def read_constraints(value: object) -> Object:
    """What the decision must keep to; a list of providers is one of names."""
    constraints = read_object(value, "constraints")
    for name in _LISTS:
        if not _may_name_providers(constraints.get(name)):
            raise invalid_field(name, f"constraints.{name}", _NAMED)
    return constraints


def are_usual(constraints: Object) -> bool:
    """Whether `read_constraints` takes them, and none has a name that a hint may be about."""
    return CONSTRAINTS.issuperset(constraints) and all(
        _may_name_providers(constraints.get(name)) for name in _LISTS
    )


def _may_name_providers(value: object) -> bool:
    if value is None:
        return True
    return (
        type(value) is list
        and 1 <= len(value) <= MAX_NAMED_PROVIDERS
        and all(type(name) is str and _PROVIDER.fullmatch(name) for name in value)
    )


def read_policy_id(body: Object) -> str:
    value = body.get("policy_id")
    if value is None or value == "":
        return DEFAULT_POLICY
    if type(value) is not str or not is_scoped(value):
        raise invalid_field("policy_id", "policy_id", SCOPED)
    return value


def read_timestamp(body: Object, inner: Object) -> int | None:
    value = body.get("timestamp_ms")
    if value is None:
        value = inner.get("timestamp_ms")
        if value is None:
            return None
    if type(value) is not int or value not in _INT64:
        raise invalid_field("timestamp_ms", "message.timestamp_ms", "an integer of milliseconds")
    return value


def read_push(value: object) -> bool:
    """true, "true", 1; false, "false", 0, absent; anything else is an error."""
    if value is None:
        return False
    if type(value) not in (bool, str, int) or value not in PUSH_VALUES:
        raise invalid_field(
            "push_assignment", "push_assignment", 'true, "true", 1, false, "false", 0 or absent'
        )
    return PUSH_VALUES[value]


def read_return_message(value: object) -> bool:
    if type(value) is not bool and value is not None:
        raise invalid_field("return_message", "return_message", "true, false or absent")
    return value is True


def check_return_message(request: RouteRequest) -> None:
    """An answer that cannot hold the message must not look like one of a policy that leaves it as
    it was.
    """
    if request.wants_protobuf or request.push_assignment:
        raise invalid_field(
            "return_message",
            "return_message",
            "absent beside `Accept: application/x-protobuf` and `push_assignment`",
        )


def read_assignment_subject(value: object, allowed: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if type(value) is not str or value not in allowed:
        raise invalid_field(
            "assignment_subject", "assignment_subject", "one of the configured subjects"
        )
    return value


def _find_first(*values: object) -> object:
    return next((value for value in values if value is not None), None)
