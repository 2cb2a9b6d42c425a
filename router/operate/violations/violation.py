"""A violation of the header contract as an event: which tenant broke which rule, and where; never a
value of a header.

An event stands for `count` violations: itself, and those of the same tenant, subject, header and
rule that were left out of the stream since the one before. `messages` of them are the first
violation of their message, so the sum over all events counts messages. Rule:
docs/reference/contracts.md#violation-events.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import orjson
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, STAGE_SCHEMA, Malformed

VIOLATION_SUBJECT = "beamline.router.v1.contract.violation.{subscription}"
ALL_VIOLATIONS = VIOLATION_SUBJECT.replace("{subscription}", "*")


class ViolationEvent(Struct, frozen=True, kw_only=True):
    """`tenant_id` None: it could not be read, or with `several_tenants` the event stands for more
    than one.

    `stream` and `sequence` None: the listener refused the message, which no stream has.
    """

    version: str = "1"
    subscription: str  # decide | results | acks
    subject: str
    header: str
    rule: str
    expected: str  # what the header should be
    tenant_id: str | None = None
    several_tenants: bool | None = None
    message_id: str | None = None
    trace_id: str | None = None
    stream: str | None = None
    sequence: int | None = None
    inbox_prefix: str | None = None  # of the requester: each role has its own
    timestamp: int  # milliseconds since the epoch
    router_node_id: str
    count: int = 1
    messages: int = 1


def violation_subject(subscription: str) -> str:
    return VIOLATION_SUBJECT.replace("{subscription}", subscription)


def list_violation_fields(event: ViolationEvent) -> Mapping[str, object]:
    """The event as it is on the wire: what is not known is absent."""
    return {
        name: value
        for name in ViolationEvent.__struct_fields__
        if (value := getattr(event, name)) is not None
    }


def violation_bytes(event: ViolationEvent) -> bytes:
    return orjson.dumps(list_violation_fields(event))


def read_violation(data: bytes) -> ViolationEvent:
    """Raises Malformed."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE_ERRORS as exc:
        raise Malformed(
            SCHEMA_VALIDATION_FAILED, "This is no violation event", STAGE_SCHEMA
        ) from exc


_DECODER = msgspec.json.Decoder(ViolationEvent)
