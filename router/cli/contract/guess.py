"""Which message of the contract bytes look like, for a user who does not say it."""

from __future__ import annotations

import orjson

# The first of these whose fields are all there.
MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    ("answer", frozenset({"ok"})),
    ("assignment", frozenset({"executor", "job"})),
    ("usage", frozenset({"event_type"})),
    ("result", frozenset({"status", "latency_ms"})),
    ("ack", frozenset({"assignment_id", "status"})),
)
KINDS = {"exec_result": "result", "exec_assignment_ack": "ack"}  # of envelopes
DEFAULT = "decide"


def guess_name(data: bytes) -> str:
    """The name of the message's shape."""
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError:
        return DEFAULT
    if not isinstance(message, dict):
        return DEFAULT
    kind = message.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    return next((name for name, marks in MARKS if marks <= message.keys()), DEFAULT)
