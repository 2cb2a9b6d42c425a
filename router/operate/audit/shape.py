"""What an operator wrote (docs/reference/contracts.md#audit)."""

from __future__ import annotations

from typing import Any

import orjson

from router.contracts.shapes.message_shape import SENT, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, add_description, build_object
from router.operate.audit.audit_event import (
    ADMIN_SERVICE,
    BEGUN,
    CLI,
    CONSOLE,
    DONE,
    FAILED,
    MAX_NOTE,
    MAX_TEXT,
    AuditEvent,
    audit_bytes,
)

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
