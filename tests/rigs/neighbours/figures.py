"""From records to figures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

from msgspec import Struct

from tests.rigs.neighbours.asking import DECIDED, PATIENCE_S
from tests.rigs.neighbours.quiet import LOST

ALLOWED_RATIO = 1.5
# A request is handed over four times (client, server, router, server, client). Behind a busy
# process of the same priority a hand-over waits for the next tick of the kernel's scheduler: 4 ms
# where this was written (p99 3.9 ms with four busy processes on two cores, 0.25 ms on idle ones).
# Two such waits and the 2 ms of a request alone are the scheduler's, not a neighbour's.
FLOOR_MS = 10.0
NORMAL_RATIO, NORMAL_MS = 2.0, 20.0
STEADY_S = 5  # so many normal seconds in a row end the looking


class Record(Struct, frozen=True):
    """One request of the quiet tenant. `ms` None: not answered within its patience."""

    due: float
    ms: float | None
    code: str


class Experience(Struct, frozen=True):
    """What the quiet tenant felt over a span. An unanswered request took longer than any other;
    `refused`: errors, by code.
    """

    asked: int
    p50_ms: float
    p99_ms: float
    unanswered: int
    refused: dict[str, int]

    @property
    def lost(self) -> int:
        """Requests that were not decided within their patience."""
        return self.unanswered + sum(self.refused.values())


def summarize(records: Sequence[Record], begin: float, end: float) -> Experience:
    some = [record for record in records if begin <= record.due < end]
    latencies = sorted(inf if record.ms is None else record.ms for record in some)
    refused = Counter(record.code for record in some if record.code not in (DECIDED, LOST))
    unanswered = sum(record.ms is None for record in some)
    return Experience(
        len(some),
        percentile(latencies, 0.5),
        percentile(latencies, 0.99),
        unanswered,
        dict(refused),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Capped at the patience, for a requester waits no longer; 0 of nothing."""
    if not ordered:
        return 0.0
    return min(ordered[min(len(ordered) - 1, int(len(ordered) * share))], PATIENCE_S * 1000)


def seconds_after(
    records: Sequence[Record], ended: float, until: float, limit_ms: float
) -> list[bool]:
    """Of each whole second between these moments, whether it was normal: all decided, and p99
    within the limit.
    """
    found: list[bool] = []
    for place in range(int(until - ended)):
        second = summarize(records, ended + place, ended + place + 1)
        found.append(second.asked > 0 and second.lost == 0 and second.p99_ms <= limit_ms)
    return found


def normal_limit_ms(alone: Experience) -> float:
    return max(NORMAL_RATIO * alone.p99_ms, NORMAL_MS)


def normal_again_s(normal: Sequence[bool]) -> float | None:
    """Seconds until the first from which on all that were seen are normal; None when the last is
    not.
    """
    if not normal or not normal[-1]:
        return None
    return float(
        max((place + 1 for place, is_normal in enumerate(normal) if not is_normal), default=0)
    )


def is_steady(normal: Sequence[bool]) -> bool:
    return len(normal) >= STEADY_S and all(normal[-STEADY_S:])


def is_within(alone: Experience, beside: Experience) -> bool:
    """The promise: nothing lost, p99 at most 1.5 times that of alone, or below what two shared
    cores cost by themselves.
    """
    return beside.lost == 0 and beside.p99_ms <= max(ALLOWED_RATIO * alone.p99_ms, FLOOR_MS)
