"""What one instance has learned of a tenant's providers, as it stands in its bucket
(docs/reference/policies.md#learned).

    {tenant_id, node, life, providers: {name: {…, minutes: [this, before], finished: [key]}}}

Each instance writes a key of its own for each tenant, so no write conflicts with another. The
moving figures carry a stamp, and of all instances' the one with the newest stamp counts; counts are
added up.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import KeyedRecord
from router.core import ids

MAX_PROVIDERS = 500  # of one tenant, as a policy has at most
MAX_FINISHED = 4096  # keys of assignments of one provider
MAX_BUCKETS = 256  # of a distribution of latencies

_Figure = Annotated[float, Meta(ge=0, le=1e12)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class MinuteRecord(Struct, frozen=True):
    """The outcomes of one minute: `latencies` counts successes by bucket
    (`measurements.latencies`).

    `forgiven`: of the failures, those before a recovery, which say nothing of now. The last three
    are no failures of the provider.
    """

    successes: _Count = 0
    failures: _Count = 0
    chosen: _Count = 0
    forgiven: _Count = 0
    request_errors: _Count = 0
    rate_limits: _Count = 0
    cancellations: _Count = 0
    latencies: Annotated[
        dict[Annotated[int, Meta(ge=0, lt=MAX_BUCKETS)], _Count], Meta(max_length=MAX_BUCKETS)
    ] = {}


class ProviderFiguresRecord(Struct, frozen=True, kw_only=True):
    """One provider. `stamp_ms` orders the moving figures among instances; `silent_ms`: since the
    outcome that they are of.

    `finished`: keys of other instances' assignments whose results came here a moment ago.
    """

    stamp_ms: _Count
    silent_ms: _Count
    latency_ms: _Figure | None
    success_rate: Annotated[float, Meta(ge=0, le=1)]
    cost: _Figure | None
    samples: _Count
    in_flight: _Count
    is_failing: bool = False
    streak: _Count = 0  # successes of a failing one since its last failure
    minutes: tuple[MinuteRecord, MinuteRecord]  # this one, and the one before
    finished: Annotated[
        tuple[Annotated[str, Meta(max_length=36)], ...], Meta(max_length=MAX_FINISHED)
    ] = ()


class FiguresRecord(Struct, frozen=True, kw_only=True):
    """`life` names one process, `node` names it to people: a node's name may come back."""

    tenant_id: str
    node: str
    life: str
    providers: Annotated[dict[_Name, ProviderFiguresRecord], Meta(max_length=MAX_PROVIDERS)]

    @property
    def key(self) -> str:
        return figures_key(self.tenant_id, self.life)


def figures_key(tenant_id: str, life: str) -> str:
    return ids.key(tenant_id, life)


read_figures_record = KeyedRecord(FiguresRecord, "a record of figures").read
