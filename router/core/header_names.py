"""The headers that Router reads, under the names by which it looks them up; a sender may write them
in any case.

Go's carrier of OpenTelemetry writes `Traceparent`, other clients `TRACEPARENT`, and W3C lets them
(https://www.w3.org/TR/trace-context/#header-name). So names are compared without case when a header
block is read, once for all readers. Of two spellings the exact one holds. Names of the server
(`Nats-*`) are exact, as the server itself takes them: `nats-msg-id` is no id.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.core.repeated_headers import collect_headers, list_lines

READ_HEADERS = frozenset(
    {
        *("trace_id", "tenant_id", "version", "traceparent", "tracestate", "cp_phase"),
        *(
            "request_id",
            "push_assignment",
            "Reply-To",
            "Accept",
            "Router-Confirm",
            "Router-Deadline-Ms",
            "Router-Stream",
            "api_key",
        ),
        *("Event-Type", "Event-Version", "Occurred-At", "Correlation-Id", "Causation-Id"),
        *(
            "x-dlq-reason",
            "x-original-msg-id",
            "x-first-stored-ms",
            "x-replay-count",
            "x-replay-run",
        ),
    }
)
_BY_ANY_CASE = {name.lower(): name for name in READ_HEADERS}


def restore_case(headers: dict[str, str]) -> dict[str, str]:
    """The same headers, in the same order, under the names that Router reads."""
    # nearly always names of the server or of the sender's own
    unread = headers.keys() - READ_HEADERS
    if not any(name.lower() in _BY_ANY_CASE for name in unread):
        return headers
    return collect_headers(
        (_restore_name(name, headers), value) for name, value in list_lines(headers)
    )


def _restore_name(name: str, headers: Mapping[str, str]) -> str:
    exact = _BY_ANY_CASE.get(name.lower(), name)
    return name if exact in headers else exact  # where the exact spelling is there too, it holds
