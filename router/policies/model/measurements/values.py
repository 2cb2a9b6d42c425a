"""What a decision sees of a provider: figures that do not change, so that a recorded decision can
be computed again from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


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

    provider: int = 0
    request: int = 0
    rate_limit: int = 0
    cancelled: int = 0


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

    def put(self, name: str, known: LearnedFigures) -> None:
        self[name] = known
        self._mark(name, is_failing=known.is_failing)

    def drop(self, name: str) -> None:
        self.pop(name, None)
        self._mark(name, is_failing=False)

    def _mark(self, name: str, *, is_failing: bool) -> None:
        if is_failing is (name in self.failing):
            return
        (self.failing.add if is_failing else self.failing.discard)(name)
        self.choices.clear()
        self.sound.clear()
