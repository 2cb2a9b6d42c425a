"""The header contract as data, and what a reader may take from headers (docs/contracts.md#header-contract).

One table, RULES: the validator, its page and its tests are made from it. Breaking a rule does not
stop a message; the bad header counts as absent. Which violations do stop one is the reader's to say.

    none of the five contract headers   = the CP1 baseline, never a violation
    any of them                         = every rule holds for the headers that are there, and Nats-Msg-Id must be
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from router.core import ids

TRACE_ID = "trace_id"
TENANT_ID = "tenant_id"
VERSION_HEADER = "version"
TRACEPARENT = "traceparent"
CP_PHASE = "cp_phase"
MESSAGE_ID = "Nats-Msg-Id"

CONTRACT_HEADERS = frozenset({TRACE_ID, TENANT_ID, VERSION_HEADER, TRACEPARENT, CP_PHASE})
SUPPORTED_VERSIONS = frozenset({"1", "1.0", "v1"})  # "1.0" and "v1" read as "1"
PHASES = frozenset({"cp1", "cp2"})
CHECKED_SUBJECTS = ("beamline.router.v1.decide", "caf.exec.result.v1", "caf.exec.assign.v1.ack")

# W3C Trace Context, level 1: version 00 ends after the flags, a later one may go on; ids of zeros and version ff are invalid.
_IDS = r"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_W3C = re.compile(rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(?:-[\x20-\x7e]{{0,128}})?")

# Headers that command the server (2.15); none of them is a requester's business (docs/contracts.md#control-headers).
# `Nats-Expected-Stream` is none of them: a publisher that names the stream gets a PubAck (`delivery.pub_acks`).
# With one of these a `no_ack` stream may refuse a request and say nothing, or do something to itself.
SILENCING_HEADERS = frozenset(
    {"Nats-TTL", "Nats-Rollup", "Nats-Incr", "Nats-Schedule", "Nats-Schedule-TTL", "Nats-Schedule-Target", "Nats-Schedule-Source"}
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
# With one of these it stores the request; or the server writes a trace of it to a subject of the sender's choice.
CONTROL_HEADERS = SILENCING_HEADERS | frozenset(
    {"Nats-Trace-Dest", "Nats-Trace-Only", "Nats-Trace-Hop", "Nats-Trace-Origin-Account"}
    | {"Nats-Counter-Sources", "Nats-Marker-Reason", "Nats-Required-Api-Level"}
)


def find_control_header(headers: Mapping[str, str]) -> str | None:
    """The first control header among these, None when there is none."""
    return None if CONTROL_HEADERS.isdisjoint(headers) else _find_first(CONTROL_HEADERS, headers)


def find_silencing_header(headers: Mapping[str, str]) -> str | None:
    """The first of those that a stream may refuse without a word."""
    return None if SILENCING_HEADERS.isdisjoint(headers) else _find_first(SILENCING_HEADERS, headers)


def _find_first(names: frozenset[str], headers: Mapping[str, str]) -> str:
    return next(name for name in headers if name in names)


Violation = tuple[str, str]  # (header, rule): two labels of router_nats_contract_violations_total


class HeaderRule(Struct, frozen=True, kw_only=True):
    """One line of the contract. `holds` is asked about a value that is there; None: it is compared with the payload."""

    header: str
    name: str
    says: str
    holds: Callable[[str], object] | None
    is_required: bool = False  # beside any contract header
    subjects: tuple[str, ...] = CHECKED_SUBJECTS


RULES: tuple[HeaderRule, ...] = (
    HeaderRule(header=TRACE_ID, name="empty", says="not empty", holds=len),
    HeaderRule(header=TENANT_ID, name="empty", says="not empty", holds=len),
    HeaderRule(
        header=VERSION_HEADER, name="unsupported", says='"1", or "1.0" or "v1" which read as it', holds=SUPPORTED_VERSIONS.__contains__
    ),
    HeaderRule(header=TRACEPARENT, name="not_w3c", says="W3C Trace Context", holds=_W3C.fullmatch),
    HeaderRule(header=CP_PHASE, name="unknown", says="cp1 or cp2", holds=PHASES.__contains__),
    HeaderRule(header=MESSAGE_ID, name="missing", says="there and not empty, beside any contract header", holds=len, is_required=True),
    HeaderRule(header=TENANT_ID, name="mismatch", says="the payload's tenant, if both are given; the header's holds", holds=None),
)

MISMATCH: Violation = (TENANT_ID, "mismatch")
# The table as the loop below reads it: plain tuples, since this runs for every message.
_BY_VALUE = tuple((rule.header, rule.name, rule.holds, rule.is_required) for rule in RULES if rule.holds is not None)


def violations(headers: Mapping[str, str], payload_tenant: object = None) -> tuple[Violation, ...]:
    """Every rule that these headers break, in the table's order; never a value, which may be a secret."""
    if CONTRACT_HEADERS.isdisjoint(headers) or _are_plain(headers, payload_tenant):
        return ()
    found: list[Violation] | None = None
    for header, name, holds, is_required in _BY_VALUE:
        value = headers.get(header)
        if is_required if value is None else not holds(value):
            found = [*(found or ()), (header, name)]
    tenant = headers.get(TENANT_ID)
    if tenant and payload_tenant and tenant != payload_tenant:
        found = [*(found or ()), MISMATCH]
    return tuple(found) if found else ()


def _are_plain(headers: Mapping[str, str], payload_tenant: object) -> bool:
    """Whether these keep all rules, in a third of the time of the table. False: the table says it; a test compares both."""
    if TRACEPARENT in headers or CP_PHASE in headers or headers.get(VERSION_HEADER, "1") not in SUPPORTED_VERSIONS:
        return False
    tenant = headers.get(TENANT_ID, payload_tenant)
    has_ids = tenant and headers.get(MESSAGE_ID) and headers.get(TRACE_ID, "none")
    return bool(has_ids) and (not payload_tenant or tenant == payload_tenant)


def describe() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """The contract for a page or a test: (header, rule, what it says, subjects)."""
    for rule in RULES:
        yield rule.header, rule.name, rule.says, rule.subjects


def tenant_in(headers: Mapping[str, str]) -> str | None:
    """The header's tenant; None when absent, empty or not a tenant id (a malformed header counts as absent: docs/contracts.md#fields)."""
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
    return value if value and _W3C.fullmatch(value) else None


def is_supported_version(value: object) -> bool:
    """Whether a `version`, from a header or a payload, is ours; a value that is not text is not."""
    return isinstance(value, str) and value in SUPPORTED_VERSIONS
