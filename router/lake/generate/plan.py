"""What to generate: how many messages, and how many of them are irregular."""

from __future__ import annotations

from enum import Enum
from random import Random

from msgspec import Struct

from router.core.errors import Misconfigured

DAY_MS = 86_400_000
MAX_DAYS = 3660
# of a plan, each the value of an irregularity
SHARES = ("duplicates", "malformed", "late", "adjustments", "uncorrelated")


class Irregularity(Enum):
    """How a message is irregular. Most are not."""

    # an event again, under another message id: as if the broker's duplicate window were over
    DUPLICATE = "duplicates"
    CONFLICT = "conflicts"  # the identity of an event, with other content
    MALFORMED = "malformed"
    LATE = "late"  # a good event with a timestamp long before its neighbours'
    ADJUSTMENT = "adjustments"  # of an earlier event, up or down
    UNCORRELATED = "uncorrelated"  # an outcome that is marked, because its assignment is not known


class LoadPlan(Struct, frozen=True, kw_only=True):
    """`events` counts all messages; shares are of it, and exact. Times are milliseconds since the
    epoch.
    """

    events: int
    duplicates: float = 0.02
    late: float = 0.01
    malformed: float = 0.001
    adjustments: float = 0.005
    uncorrelated: float = 0.005
    conflicts: int = 5
    tenants: int = 20
    days: float = 3.0  # the events' timestamps rise from this long before `until`
    until_ms: int = 1_780_000_000_000
    seed: int = 1

    def __post_init__(self) -> None:
        for name in SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise Misconfigured(name, "a share, from 0 to 1")
        for name, least in (("events", 1), ("conflicts", 0), ("tenants", 1)):
            if getattr(self, name) < least:
                raise Misconfigured(name, f"a number from {least}")
        if not 0 < self.days <= MAX_DAYS:
            raise Misconfigured("days", f"above 0, at most {MAX_DAYS}")
        if sum(count for _, count in self._count_irregular()) >= self.events:
            raise Misconfigured(
                f"{', '.join(SHARES)}, conflicts", "leave no event that is as it should be"
            )

    def draw_irregular(self) -> dict[int, Irregularity]:
        """Return the irregular positions. The first message is a good one, so that there is an
        event to repeat.
        """
        counts = self._count_irregular()
        drawn = iter(
            Random(f"kinds {self.seed}").sample(  # noqa: S311
                range(1, self.events), sum(count for _, count in counts)
            )
        )
        return {next(drawn): kind for kind, count in counts for _ in range(count)}

    def _count_irregular(self) -> list[tuple[Irregularity, int]]:
        shares = ((Irregularity(name), getattr(self, name)) for name in SHARES)
        return [
            *((kind, round(share * self.events)) for kind, share in shares),
            (Irregularity.CONFLICT, self.conflicts),
        ]
