"""A worker's report of bytes that it could not read as an assignment, on `caf.deadletter.v1`
(docs/reference/contracts.md#workers-dead-letters).

{version, kind: "dead_letter", data{reason, payload_ref{subject, len}, ts, …}}      enveloped
{reason, payload_ref{subject, len}, ts, …}                                          bare
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.contracts.codec import read_object
from router.contracts.malformed import missing_field
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits
from router.contracts.shapes.parts import Schema, build_object

UNREAD_SUBJECT = "caf.deadletter.v1"
UNREAD_KIND = "dead_letter"


def read_unread_report(data: bytes) -> Mapping[str, Any]:
    """The report's own fields. Raises Malformed where it gives no reason; such a report is stored
    and listed all the same.
    """
    report = find_report(read_object(data))
    reason = report.get("reason")
    if not isinstance(reason, str) or not reason:
        raise missing_field("reason", "reason")
    return report


def find_report(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What stands in `data` of an envelope, of whatever kind; without one, the body itself."""
    data = body.get("data")
    return data if isinstance(data, dict) and data else body


def build_unread_report(_: ShapeLimits) -> MessageShape:
    place = {
        "subject": {"description": "the subject that they came on"},
        "len": {"description": "how many bytes they are"},
    }
    fields: dict[str, Schema] = {
        "reason": {
            "type": "string",
            "minLength": 1,
            "description": "a code, like PARSE_ERROR; operators see it",
        },
        "message": {"description": "words for operators"},
        "payload_ref": {"properties": place, "description": "where the bytes came from"},
        "ts": {"description": "when the worker received them, ISO 8601"},
        **{
            name: {"description": "where it could be read"}
            for name in ("tenant_id", "trace_id", "request_id", "assignment_id")
        },
    }
    report, filled = build_object(fields, ("reason",)), {"type": "object", "minProperties": 1}
    names: dict[str, Schema] = {
        "version": {"description": "the version of the contract"},
        "kind": {"description": UNREAD_KIND},
    }
    enveloped = build_object({**names, "data": {**report, **filled}}, ("data",), title="enveloped")
    bare = {
        **report,
        "properties": {**names, **fields},
        "not": build_object({"data": filled}, ("data",)),
        "title": "bare",
    }
    return MessageShape(
        name="unread-report",
        title="UnreadReport",
        text="What a worker says of bytes that it could not read as an assignment.",
        direction=RECEIVED,
        body={"type": "object", "oneOf": [bare, enveloped]},
        page="docs/reference/contracts.md#workers-dead-letters",
        examples=UNREAD_EXAMPLES,
    )


_UNREAD: dict[str, Any] = {
    "reason": "PARSE_ERROR",
    "payload_ref": {"subject": "caf.exec.assign.v1", "len": 17},
    "ts": "2024-01-15T14:30:00Z",
}
UNREAD_EXAMPLES: tuple[Any, ...] = ({"version": "1", "kind": UNREAD_KIND, "data": _UNREAD}, _UNREAD)
