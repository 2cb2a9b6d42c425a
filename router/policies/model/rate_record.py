"""The token bucket of a rate limit that all instances share: a document of the bucket
`ROUTER_RATE_LIMITS`.

    key      {tenant}.{policy}
    value    {full_at_ns}      when it is full again, nanoseconds since the epoch by the server's
                               clock

docs/reference/policies.md#shared-rate-limit
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import RecordKind
from router.core import ids


class RateRecord(Struct, frozen=True):
    """One number: tokens come back with the time."""

    full_at_ns: Annotated[int, Meta(ge=0)] = 0


def build_rate_key(tenant_id: str, policy_id: str) -> str:
    """The bucket's key of a tenant's limit by a policy."""
    return ids.key(tenant_id, policy_id)


read_rate_record = RecordKind(RateRecord, "the tokens of a rate limit").read
