"""What is learned of a provider, as values: what a decision sees, the distribution of its
latencies, and what stands in the bucket. They do not change, so a decision can be computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import log2
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct

from router.contracts.stored_record import KeyedRecord
from router.core import ids


class LearnedFigures(Struct, frozen=True, gc=False):
    """One provider, for one tenant, at one moment. None: too few outcomes to say.

    `score` and `in_flight` follow each outcome and each assignment; the others are made anew once
    in REFRESH_S.
    """

    samples: int = 0  # outcomes so far, of all instances
    in_flight: int = 0  # assignments without a result
    latency_ms: float | None = None  # peak moving average of successes
    success_rate: float = 1.0  # moving average, 0..1
    # the lower, the better: latency × punishment of failures × (in flight + 1)
    score: float | None = None
    cost: float | None = None  # of a success, moving average
    p50_latency_ms: float | None = None  # of the last one to two minutes, as the next three
    p95_latency_ms: float | None = None
    recent_success_rate: float | None = None
    chosen: int = 0  # assignments
    silent_s: float | None = None  # since the last outcome
    is_failing: bool = False  # most of its results fail: strategies leave it out, but for probes
    probe_share: float = 0.0  # which share of the requests may probe it now; 0 unless it fails


class ErrorCounts(Struct, frozen=True, gc=False):
    """The failures of one provider in the last one to two minutes, by class
    (`contracts.failure_class`). No decision looks at them.
    """

    provider: int
    request: int
    rate_limit: int
    cancelled: int


NO_FIGURES: Mapping[str, LearnedFigures] = MappingProxyType({})


class TenantFigures(dict[str, LearnedFigures]):
    """The figures of a tenant's providers, by name. `failing`: those that are failing.

    `choices` and `sound`: what was chosen from the figures that are made once in REFRESH_S, and
    whom a strategy chooses among, by the id of what it was chosen from, which stands beside it so
    that no id is used again; cleared when those figures, or who fails, change.
    """

    __slots__ = ("choices", "failing", "sound")

    def __init__(self) -> None:
        super().__init__()
        self.choices: dict[int, tuple[object, object]] = {}
        self.sound: dict[int, tuple[object, object]] = {}
        self.failing: set[str] = set()

    def put(self, name: str, learned: LearnedFigures) -> None:
        self[name] = learned
        self._mark(name, is_failing=learned.is_failing)

    def drop(self, name: str) -> None:
        self.pop(name, None)
        self._mark(name, is_failing=False)

    def _mark(self, name: str, *, is_failing: bool) -> None:
        if is_failing is (name in self.failing):
            return
        (self.failing.add if is_failing else self.failing.discard)(name)
        self.choices.clear()
        self.sound.clear()


# -- A distribution of latencies: counts in buckets, each 2^(1/8) times as wide as the one before,
# so a percentile is off by 5 % at most.


_PER_DOUBLING = 8


def find_bucket(latency_ms: float) -> int:
    """0 … 175 for a latency up to an hour."""
    return int(log2(latency_ms + 1) * _PER_DOUBLING)


def find_edge(bucket: int) -> float:
    """The latency in milliseconds at which the bucket ends."""
    return float(2.0 ** ((bucket + 1) / _PER_DOUBLING) - 1)


def find_percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The latency below which this share (0..1) of the counts lies, nearest rank; None without
    counts.
    """
    left = share * sum(counts.values())
    for bucket in sorted(counts):
        left -= counts[bucket]
        if left <= 0:
            return float(2.0 ** ((bucket + 0.5) / _PER_DOUBLING) - 1)
    return None


def add_up(*parts: Mapping[int, int]) -> Counter[int]:
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
    return total


# -- What one instance has learned of a tenant's providers, as it stands in its bucket
# (docs/reference/policies.md#learned).
#
#     {tenant_id, node, life, providers: {name: {…, minutes: [this, before], finished: [key]}}}
#
# Each instance writes a key of its own for each tenant, so no write conflicts with another. The
# moving figures carry a stamp, and of all instances' the one with the newest stamp counts; counts
# are added up.


MAX_PROVIDERS = 500  # of one tenant, as a policy has at most
MAX_FINISHED = 4096  # keys of assignments of one provider
MAX_BUCKETS = 256  # of a distribution of latencies

_Figure = Annotated[float, Meta(ge=0, le=1e12)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Name = Annotated[str, Meta(min_length=1, max_length=128)]


class MinuteRecord(Struct, frozen=True):
    """The outcomes of one minute: `latencies` counts successes by bucket
    (`find_bucket`).

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
