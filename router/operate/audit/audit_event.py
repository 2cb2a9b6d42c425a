"""One write of an operator as an event, and its schema: who did what to which object, what it was
before and after; never a payload or a secret.

    id           of the event; also its Nats-Msg-Id
    by           user@host of a command, the user of a console, the `author` that a request to a
                 router names; `nats_user`: the login
                 on the broker of the process that wrote, where it has a name
    command      the words of the command that writes the same: `policy put`, `dlq replay`
    target       what it was done to: acme/default, ROUTER_DLQ 17
    outcome      begun: a long write was about to begin; done; failed: it ended early, and what it
                 did until then stands
    before, after    a few small values: versions, hashes, counts

Rule: docs/reference/contracts.md#audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, STAGE_SCHEMA, Malformed
from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object
from router.core import ids
from router.core.legible import shorten
from router.core.masking import hide_logins, mask_secrets

AUDIT_SUBJECT = "beamline.router.v1.audit.{via}"
ALL_AUDIT_EVENTS = AUDIT_SUBJECT.replace("{via}", "*")
CLI, CONSOLE, ADMIN_SERVICE = "cli", "console", "admin"  # admin: a request to a router
BEGUN, DONE, FAILED = "begun", "done", "failed"
MAX_TEXT = 256  # characters of each text
MAX_NOTE = 1_000
MAX_VALUES_BYTES = 2_048  # of `before` and of `after`, each

Values = Mapping[str, object]


class OperatorWrite(Struct, kw_only=True):
    """What one write says of itself."""

    command: str
    target: str
    outcome: str = DONE
    tenant_id: str | None = None
    before: Values | None = None
    after: Values | None = None
    note: str | None = None
    error: str | None = None


class AuditEvent(OperatorWrite, kw_only=True):
    """A write, and who wrote. `timestamp`: milliseconds since the epoch, of the process that wrote;
    `router_node_id`: that process.
    """

    version: str = "1"
    id: str
    timestamp: int
    by: str
    via: str  # cli | console | admin
    nats_user: str | None = None
    router_node_id: str


# As they stand on the wire: who wrote, then what.
_FIELDS = tuple(
    sorted(AuditEvent.__struct_fields__, key=OperatorWrite.__struct_fields__.__contains__)
)


def audit_subject(via: str) -> str:
    return AUDIT_SUBJECT.replace("{via}", via)


def list_audit_fields(event: AuditEvent) -> Mapping[str, object]:
    """The event as it is on the wire: what is not known is absent."""
    return {name: value for name in _FIELDS if (value := getattr(event, name)) is not None}


def audit_bytes(event: AuditEvent) -> bytes:
    """Every text is cut, and no value is larger than MAX_VALUES_BYTES."""
    fields: dict[str, object] = {}
    for name, value in list_audit_fields(event).items():
        if isinstance(value, str):
            fields[name] = shorten(hide_logins(value), MAX_NOTE if name == "note" else MAX_TEXT)
        else:
            fields[name] = _limit_values(value) if isinstance(value, Mapping) else value
    return orjson.dumps(fields)


def read_audit_event(data: bytes) -> AuditEvent:
    """Raises Malformed."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE_ERRORS as exc:
        raise Malformed(SCHEMA_VALIDATION_FAILED, "This is no audit event", STAGE_SCHEMA) from exc


def _limit_values(values: Values) -> object:
    masked = mask_secrets(dict(values))
    data = orjson.dumps(masked, default=str)
    return (
        masked
        if len(data) <= MAX_VALUES_BYTES
        else {"bytes": len(data), "sha256": ids.sha256_hex(data)}
    )


_DECODER = msgspec.json.Decoder(AuditEvent)


# -- What an operator wrote (docs/reference/contracts.md#audit).


_TEXT: Schema = {"type": "string", "maxLength": MAX_TEXT}
_VALUES: Schema = {
    "type": "object",
    "description": "a few values, masked; where they are too large their bytes and sha256",
}


def build_audit_shape(_: ShapeLimits) -> MessageShape:
    fields: dict[str, Schema] = {
        "version": {"const": "1"},
        "id": add_description(_TEXT, "the event's own id, its Nats-Msg-Id too"),
        "timestamp": {
            "type": "integer",
            "minimum": 0,
            "description": "milliseconds since the epoch",
        },
        "by": add_description(
            _TEXT,
            (
                "user@host of a command, the console's user, or the author that a request to a "
                "router names"
            ),
        ),
        "via": {"enum": [CLI, CONSOLE, ADMIN_SERVICE]},
        "router_node_id": add_description(_TEXT, "the process that wrote"),
        "command": add_description(_TEXT, "the words of the command that writes the same"),
        "target": add_description(_TEXT, "what it was done to"),
        "outcome": {"enum": [BEGUN, DONE, FAILED]},
    }
    optional: dict[str, Schema] = {
        "nats_user": add_description(
            _TEXT, "the login on the broker of the process that wrote, where it has a name"
        ),
        "tenant_id": add_description(_TEXT, "whose data it was, if one tenant's"),
        "before": _VALUES,
        "after": _VALUES,
        "note": {"type": "string", "maxLength": MAX_NOTE, "description": "what the operator said"},
        "error": add_description(_TEXT, "the code of the error that ended it early"),
    }
    return MessageShape(
        name="audit",
        title="AuditEvent",
        text=(
            "One write of an operator: who did what to which object, with a few values before "
            "and after; never a payload."
        ),
        direction=SENT,
        body=build_object({**fields, **optional}, tuple(fields)),
        page="docs/reference/contracts.md#audit",
        examples=_list_examples(),
    )


def _list_examples() -> tuple[Any, ...]:
    """Written by the code that writes audit events."""
    event = AuditEvent(
        id="5f0c1d2e3a4b5c6d7e8f9a0b",
        timestamp=1_700_000_000_123,
        by="ops@host",
        via=CLI,
        router_node_id="host:7",
        command="policy put",
        target="acme/default",
        tenant_id="acme",
        before={"version": 3},
        after={"version": 4},
    )
    return (orjson.loads(audit_bytes(event)),)
