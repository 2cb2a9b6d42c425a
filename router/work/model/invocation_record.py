"""The record of one attempt to invoke a provider, in the bucket `ROUTER_INVOCATIONS`
(docs/reference/extensions.md#attempt-record).

    {tenant}.{attempt id}        stands from before the call until the attempt's usage event is
                                 stored

The attempt's id is drawn by the router, and its usage event has the identity `usage:{attempt id}`.
So an instance that finds the record of an attempt without an end makes the event that the attempt's
own instance would have made, and the stream stores one of them.
"""

from __future__ import annotations

import secrets
from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import RecordKind
from router.core import ids

RECORD_VERSION = "1"
_Count = Annotated[int, Meta(ge=0)]


class InvocationRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`begun_ms` and `deadline_ms`: by the server's clock. `nanos`: what it costs where it has no
    end.
    """

    version: str = RECORD_VERSION
    attempt_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    tenant_id: str
    provider_id: str
    event_type: str
    request_id: str
    trace_id: str
    begun_ms: _Count
    deadline_ms: _Count
    nanos: _Count = 0
    model: str | None = None
    input_tokens: int | None = None
    price: str | None = None
    reservation: str | None = None  # the header of its usage event
    assignment_id: str | None = None  # that it may be the bill of (`assignment_record.invoked_key`)
    assigned_request_id: str | None = None  # that assignment's

    @property
    def key(self) -> str:
        return ids.key(self.tenant_id, self.attempt_id)

    @property
    def event_id(self) -> str:
        """The identity of its usage event, unless that is its assignment's."""
        return f"usage:{self.attempt_id}"


def draw_attempt_id() -> str:
    """Not to be guessed or chosen by who pays."""
    return secrets.token_hex(16)


read_record = RecordKind(InvocationRecord, "the record of an invocation").read
