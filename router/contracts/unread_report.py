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
