"""Which message of the contract bytes look like, for a user who does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.contracts.unread_report import UNREAD_KIND

# The first of these whose fields are all there.
MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    ("answer", frozenset({"ok"})),
    ("assignment", frozenset({"executor", "job"})),
    ("usage", frozenset({"event_type"})),
    ("alert", frozenset({"alert_id"})),
    ("audit", frozenset({"via", "command", "target"})),
    ("violation", frozenset({"subscription", "rule"})),
    ("dead-letter", frozenset({"original_payload_hash"})),
    ("envelope", frozenset({"schema_version", "actor_kind"})),
    ("heartbeat", frozenset({"worker_id"})),
    ("provider-response", frozenset({"request_id", "status", "body"})),
    ("ingress-ack", frozenset({"status", "timestamp_ms"})),
    ("result", frozenset({"status", "latency_ms"})),
    ("ack", frozenset({"assignment_id", "status"})),
    ("extension-request", frozenset({"trace_id", "payload", "metadata", "config"})),
    ("provider-call", frozenset({"prompt", "parameters", "context"})),
    ("provider-request", frozenset({"provider_id", "tenant_id"})),
    ("provider-answer", frozenset({"output"})),
    ("chunk", frozenset({"done"})),
    ("extension-verdict", frozenset({"valid"})),
    ("unread-report", frozenset({"reason", "payload_ref"})),
)
KINDS = {
    "exec_result": "result",
    "exec_assignment_ack": "ack",
    "provider_request": "provider-request",
    UNREAD_KIND: "unread-report",
}  # of envelopes
VERDICTS = ("ok", "reject")
DEFAULT = "decide"


def guess_name(message: Mapping[str, Any] | None) -> str:
    """The name of the message's shape. `message`: as JSON shows it, None: it is no object, or
    cannot be read.
    """
    if message is None:
        return DEFAULT
    kind, inner = message.get("kind"), message.get("data")
    if isinstance(kind, str) and isinstance(inner, dict):
        return KINDS.get(kind) or ("heartbeat" if "worker_id" in inner else DEFAULT)
    if message.get("status") in VERDICTS and "assignment_id" not in message:
        return "extension-verdict"
    return next((name for name, marks in MARKS if marks <= message.keys()), DEFAULT)
