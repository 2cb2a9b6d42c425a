"""The headers of the contract, the values that they may have, and what a reader may take from them;
the time of a first storing among it.

What a message must keep stands in `header_rules` (docs/reference/contracts.md#header-contract). A
malformed header counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from router.core import ids
from router.core.message import Message

TRACE_ID = "trace_id"
TENANT_ID = "tenant_id"
VERSION_HEADER = "version"
TRACEPARENT = "traceparent"
CP_PHASE = "cp_phase"
MESSAGE_ID = "Nats-Msg-Id"

CONTRACT_HEADERS = frozenset({TRACE_ID, TENANT_ID, VERSION_HEADER, TRACEPARENT, CP_PHASE})
SUPPORTED_VERSIONS = frozenset({"1", "1.0", "v1"})  # "1.0" and "v1" read as "1"
PHASES = frozenset({"cp1", "cp2"})
# JetStream's limit of one message's headers; a `no_ack` stream refuses more without an answer
MAX_HEADER_BYTES = 65_535
CHECKED_SUBJECTS = ("beamline.router.v1.decide", "caf.exec.result.v1", "caf.exec.assign.v1.ack")

# W3C Trace Context, level 1: version 00 ends after the flags, a later one may go on; ids of zeros
# and version ff are invalid.
_IDS = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
is_traceparent = re.compile(
    rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(?:-[\x20-\x7e]{{0,128}})?"
).fullmatch

# Headers that command the server (2.15); none of them is a requester's business
# (docs/reference/contracts.md#control-headers). `Nats-Expected-Stream` is none of them: a publisher
# that names the stream gets a PubAck (`delivery.publish.publish_acks`). With one of these a `no_ack`
# stream may refuse a request and say nothing, or do something to itself.
SILENCING_HEADERS = frozenset(
    {
        "Nats-TTL",
        "Nats-Rollup",
        "Nats-Incr",
        "Nats-Schedule",
        "Nats-Schedule-TTL",
        "Nats-Schedule-Target",
        "Nats-Schedule-Source",
    }
    | {
        "Nats-Schedule-Time-Zone",
        "Nats-Schedule-Rollup",
        "Nats-Schedule-Next",
        "Nats-Scheduler",
        "Nats-Batch-Id",
        "Nats-Batch-Sequence",
        "Nats-Batch-Commit",
    }
    | {"Nats-Expected-Last-Msg-Id", "Nats-Expected-Last-Sequence"}
    | {"Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"}
)
# With one of these it stores the request; or the server writes a trace of it to a subject of the
# sender's choice.
CONTROL_HEADERS = SILENCING_HEADERS | frozenset(
    {"Nats-Trace-Dest", "Nats-Trace-Only", "Nats-Trace-Hop", "Nats-Trace-Origin-Account"}
    | {"Nats-Counter-Sources", "Nats-Marker-Reason", "Nats-Required-Api-Level"}
)


def find_control_header(headers: Mapping[str, str]) -> str | None:
    """The first control header among these, None when there is none."""
    return None if CONTROL_HEADERS.isdisjoint(headers) else _find_first(CONTROL_HEADERS, headers)


def find_silencing_header(headers: Mapping[str, str]) -> str | None:
    """The first of those that a stream may refuse without a word."""
    return (
        None if SILENCING_HEADERS.isdisjoint(headers) else _find_first(SILENCING_HEADERS, headers)
    )


def _find_first(names: frozenset[str], headers: Mapping[str, str]) -> str:
    return next(name for name in headers if name in names)


def tenant_in(headers: Mapping[str, str]) -> str | None:
    """The header's tenant; None when absent, empty or not a tenant id (a malformed header counts as
    absent: docs/reference/contracts.md#fields).
    """
    value = headers.get(TENANT_ID)
    return value if value and ids.is_scoped(value) else None


def trace_in(headers: Mapping[str, str]) -> str | None:
    value = headers.get(TRACE_ID)
    return value if value and ids.is_opaque(value) else None


def message_id_in(headers: Mapping[str, str]) -> str | None:
    value = headers.get(MESSAGE_ID)
    return value if value and ids.is_opaque(value) else None


def traceparent_in(headers: Mapping[str, str]) -> str | None:
    value = headers.get(TRACEPARENT)
    return value if value and is_traceparent(value) else None


def is_supported_version(value: object) -> bool:
    """Whether a `version`, from a header or a payload, is ours; a value that is not text is not."""
    return isinstance(value, str) and value in SUPPORTED_VERSIONS


# -- The time at which a message was stored first: from a replay's header, else the time of its
# own stream.
#
# A dead letter is replayed days later, and its message may name no time. Then the time of its first
# storing counts, not that of the replay: otherwise next month's replay stands on next month's bill.
# The replay carries it in a header, from dead letter to dead letter. A sender may write the header
# too, so a value that is not a time before this storing counts as absent.


FIRST_STORED = "x-first-stored-ms"  # milliseconds since the epoch
_MOST_DIGITS = 15


def first_stored_ms(message: Message) -> int:
    """Milliseconds since the epoch."""
    stored_ms = message.stored_ns // 1_000_000
    text = message.headers.get(FIRST_STORED)
    return stored_ms if text is None else min(read_first_stored(text) or stored_ms, stored_ms)


def read_first_stored(text: str) -> int | None:
    """The header's value; None for what is no time."""
    is_number = len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal()
    return (int(text) or None) if is_number else None
