"""What a load counts, and the figures made of it. Pure.

A latency is not kept: it is counted in one of fixed buckets, each 1/64 wide of where it begins. So
a percentile is right within 0.8 %, and the counts of several processes are added up.

    microseconds   0 1 2 … 127   128-129 130-131 … 254-255   256-259 …      up to 1.2 hours
    bucket         0 1 2 … 127   128     129     … 191       192     …      1 727

    LoadTally   what one process has counted since it last told; they are added up
    figures     rate, percentiles, errors by code: what is printed, and what programs read
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field

# -- Latencies.

STEPS = 64  # buckets between a number and its double
_BITS = STEPS.bit_length()  # of the numbers that have a bucket of their own
MAX_US = 2**32 - 1
RESOLUTION = 1 / STEPS
PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def find_bucket(us: int) -> int:
    """The bucket of so many microseconds; the last one also counts what is longer."""
    if us < 0:
        return 0
    us = min(us, MAX_US)
    shift = us.bit_length() - _BITS
    return shift * STEPS + (us >> shift) if shift > 0 else us


def find_middle(bucket: int) -> float:
    """The middle of what a bucket counts, in microseconds."""
    shift = max(bucket // STEPS - 1, 0)
    first = (bucket - shift * STEPS) << shift
    return first + ((1 << shift) - 1) / 2


class Latencies(Struct):
    """Counts by bucket, and the longest, in microseconds."""

    counts: dict[int, int] = field(default_factory=dict)
    longest_us: int = 0

    def add(self, us: int) -> None:
        bucket = find_bucket(us)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.longest_us = max(self.longest_us, us)

    def merge(self, other: Latencies) -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.longest_us = max(self.longest_us, other.longest_us)

    def find_percentile(self, share: float) -> float | None:
        """Microseconds that `share` of them did not exceed; None: there are none."""
        rank = math.ceil(share * sum(self.counts.values()))
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return min(find_middle(bucket), self.longest_us)
        return None

    def list_figures(self) -> dict[str, float | None]:
        """Percentiles and the longest, in milliseconds."""
        percentiles = {name: self.find_percentile(share) for name, share in PERCENTILES.items()}
        return {
            **{
                name: None if us is None else round(us / 1000, 3)
                for name, us in percentiles.items()
            },
            "max": round(self.longest_us / 1000, 3) if self.counts else None,
        }


# -- What a process has counted.

# Errors that the load itself tells of; all others are codes of answers.
TIMEOUT = "timeout"
INTERRUPTED = "interrupted"
UNREADABLE = "unreadable_answer"
OTHER, MAX_CODES = "other", 64


class LoadTally(Struct):
    """Of the requests that count: those of the warm-up do not."""

    sent: int = 0
    answered: int = 0  # with a decision
    errors: dict[str, int] = field(default_factory=dict)  # by code; the rest of `sent`, in the end
    warnings: dict[str, int] = field(default_factory=dict)  # by code, of decisions
    in_time: int = 0  # decisions that came while it was measured, whenever they were asked for
    late: int = 0  # answers to requests that had counted as unanswered
    twice: int = 0  # further answers to a request
    latencies: Latencies = field(default_factory=Latencies)
    delays: Latencies = field(default_factory=Latencies)  # of the sender, where times were given
    seconds: float = 0.0  # measured
    cpu_s: float = 0.0  # that the process itself used meanwhile

    def count_error(self, code: str) -> None:
        _count(self.errors, code)

    def count_warning(self, code: str) -> None:
        _count(self.warnings, code)

    def merge(self, other: LoadTally) -> None:
        """Add what another one counted; the seconds are those of one process."""
        self.sent += other.sent
        self.answered += other.answered
        self.in_time += other.in_time
        self.late += other.late
        self.twice += other.twice
        self.cpu_s += other.cpu_s
        for mine, theirs in ((self.errors, other.errors), (self.warnings, other.warnings)):
            for code, count in theirs.items():
                mine[code] = mine.get(code, 0) + count
        self.latencies.merge(other.latencies)
        self.delays.merge(other.delays)


def add_up(tallies: list[list[LoadTally]]) -> LoadTally:
    """All that some processes told, in order; they measure beside each other."""
    total = LoadTally()
    for told in tallies:
        for tally in told:
            total.merge(tally)
    total.seconds = max((sum(tally.seconds for tally in told) for told in tallies), default=0.0)
    return total


def _count(counts: dict[str, int], code: str) -> None:
    """A router has few codes; what else answers may have any number."""
    if code not in counts and len(counts) >= MAX_CODES:
        code = OTHER
    counts[code] = counts.get(code, 0) + 1


# -- Figures.


def compute_figures(total: LoadTally, processes: int) -> dict[str, object]:
    """What a load took, as programs read it. Rates a second, latencies in milliseconds."""
    seconds = total.seconds
    return {
        "seconds": round(seconds, 3),
        "sent": total.sent,
        "answered": total.answered,
        "errors": _sort_counts(total.errors),
        "warnings": _sort_counts(total.warnings),
        "answered_late": total.late,
        "answered_twice": total.twice,
        "requests_per_s": round(total.in_time / seconds, 1) if seconds else 0.0,
        "latency_ms": total.latencies.list_figures(),
        "load_cpu": round(total.cpu_s / seconds / processes, 3) if seconds else 0.0,
    }


def compute_ratios(
    figures: Mapping[str, object], bare: Mapping[str, object]
) -> dict[str, float | None]:
    """The router's figures by those of the bare loop; None where one of them is missing or 0."""
    pairs = {"requests_per_s": (figures["requests_per_s"], bare["requests_per_s"])}
    ours, theirs = figures["latency_ms"], bare["latency_ms"]
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs |= {name: (ours[name], theirs[name]) for name in (*PERCENTILES, "max")}
    return {
        name: round(one / other, 2)
        if isinstance(one, float) and isinstance(other, float) and other
        else None
        for name, (one, other) in pairs.items()
    }


def _sort_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent first."""
    return dict(Counter(counts).most_common())
