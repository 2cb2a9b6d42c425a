"""What to generate, and for whom: tenants by Zipf's law, a few providers and types for each, how
long a call takes and what it costs.

Adjustments have profiles of their own, which no ordinary event is drawn from.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import accumulate
from random import Random

from msgspec import Struct

from router.contracts.decision import ADJUSTMENT_TYPE
from router.core.errors import Misconfigured

# share, slowness
PROVIDER_SHARES = {
    "openai": (0.45, 1.0),
    "anthropic": (0.35, 1.25),
    "mistral": (0.15, 0.6),
    "local-llm": (0.05, 2.5),
}
# share, ms, cost in 1e-9
TYPES = {
    "chat": (0.6, 800, 4_000_000),
    "embedding": (0.3, 60, 20_000),
    "image": (0.1, 6_000, 40_000_000),
}
STATUS_SHARES = {"success": 0.94, "error": 0.035, "timeout": 0.015, "cancelled": 0.01}
FACTORS = 1 << 14  # drawn once: a log-normal number for each event would be a third of its cost


class Profile(Struct, frozen=True, gc=False):
    """One tenant, provider, type and status. `head` is the body of its events up to the latency;
    `foot` follows the cost.
    """

    index: int
    tenant_id: str
    provider_id: str
    event_type: str
    status: str
    latency_ms: float  # the median
    nanos: float  # the median cost, in 1e-9 of the currency
    head: str
    foot: str


class Population:
    """All profiles and their frequencies, and the factors that spread latencies and costs about
    their medians.
    """

    def __init__(self, tenants: int, rng: Random) -> None:
        weighted = list(_weigh_profiles(tenants))
        self.profiles = [_make_profile(index, *of) for index, (of, _) in enumerate(weighted)]
        self.cumulative_weights = list(accumulate(weight for _, weight in weighted))
        self.adjustments: dict[tuple[str, str], Profile] = {}
        for tenant, provider in dict.fromkeys(
            (profile.tenant_id, profile.provider_id) for profile in self.profiles
        ):
            self.adjustments[tenant, provider] = _make_adjusting(
                len(weighted) + len(self.adjustments), tenant, provider
            )
        self.factors = [rng.lognormvariate(0, 0.6) for _ in range(FACTORS)]


def _weigh_profiles(tenants: int) -> Iterator[tuple[tuple[str, str, str, str], float]]:
    for rank in range(tenants):
        for provider, (of_provider, _) in PROVIDER_SHARES.items():
            for event_type, (of_type, _, _) in TYPES.items():
                for status, of_status in STATUS_SHARES.items():
                    yield (
                        (f"tenant-{rank:03d}", provider, event_type, status),
                        of_provider * of_type * of_status / (rank + 1),
                    )


def _make_adjusting(index: int, tenant: str, provider: str) -> Profile:
    head = f'{{"version":"1","tenant_id":"{tenant}","provider_id":"{provider}","event_type":"{ADJUSTMENT_TYPE}","latency_ms":0,"cost":'
    foot = ',"status":"success","timestamp":'
    return Profile(
        index=index, tenant_id=tenant, provider_id=provider, event_type=ADJUSTMENT_TYPE, status="success", latency_ms=0.0, nanos=0.0,
        head=head, foot=foot,
    )  # fmt: skip


def _make_profile(index: int, tenant: str, provider: str, event_type: str, status: str) -> Profile:
    _, latency_ms, nanos = TYPES[event_type]
    head = f'{{"version":"1","tenant_id":"{tenant}","provider_id":"{provider}","event_type":"{event_type}","latency_ms":'
    pays, waits = (1.0, 1.0) if status == "success" else (0.0, 5.0 if status == "timeout" else 0.3)
    return Profile(
        index=index,
        tenant_id=tenant,
        provider_id=provider,
        event_type=event_type,
        status=status,
        latency_ms=latency_ms * waits * PROVIDER_SHARES[provider][1],
        nanos=nanos * pays,
        head=head,
        foot=f',"status":"{status}","timestamp":',
    )


# -- What to generate: how many messages, and how many of them are irregular.


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
