"""What one row came to, as it is kept. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from tests.rigs.neighbours.figures import Experience
from tests.rigs.neighbours.rows import Row

RATE = 20.0  # requests a second of the quiet tenant
NICE = 10  # of generators, and of the services that a neighbour brings
SECONDS, AFTER_S, WARM_S = 15.0, 30.0, 2.0  # unless a run says otherwise
# between the two spans: what was asked last alone is answered before the neighbour begins
GAP_S = 0.5


class Timing(Struct, frozen=True):
    """What a run is to be. `seconds`: alone, and beside; `after_s`: looked at most so long after
    the neighbour's end.
    """

    seconds: float = SECONDS
    after_s: float = AFTER_S
    warm_s: float = WARM_S

    def beside_s(self, row: Row) -> float:
        """A row that says how long is as much longer here as all are."""
        return self.seconds if row.seconds is None else row.seconds * self.seconds / SECONDS


class Sample(Struct, frozen=True):
    """The router, so many seconds after the neighbour began."""

    at_s: float
    resident_mib: float


class RowResult(Struct, frozen=True, kw_only=True):
    """One row on one tree."""

    row: str
    commit: str
    seconds: float
    alone: Experience
    beside: Experience
    after: Experience
    normal_again_s: float | None  # None: not as long as it was looked at
    looked_s: float  # after the neighbour's end
    samples: list[Sample]
    resident_before_mib: float
    router_cpu: float  # cores, while beside the neighbour
    server_cpu: float
    is_running: bool  # the router, in the end
    neighbour: dict[str, Any] = field(default_factory=dict)  # what it did
    quiet: dict[str, Any] = field(default_factory=dict)
    times: float | None = None  # the capacity, that were sent

    @property
    def resident_mib(self) -> float:
        return max((sample.resident_mib for sample in self.samples), default=0.0)

    @property
    def is_silent(self) -> bool:
        """Not one answer in the last seconds that were looked at."""
        return self.after.asked > 0 and self.after.unanswered == self.after.asked


class TreeResults(Struct, frozen=True):
    """All rows on one tree. `capacity`: requests a second, probed before. `broken`: rows without
    figures, and why.
    """

    commit: str
    capacity: float
    found: list[RowResult]
    broken: dict[str, str] = {}  # msgspec copies it


class Results(Struct, frozen=True):
    """What is kept: where and when, and each tree's rows; the control comes second."""

    machine: dict[str, str]
    seconds: float
    trees: list[TreeResults]
