"""One canary, outcome by outcome: requests fall to an arm, and end badly or late, by chance; the
verdict is asked for each time.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from router.contracts.canary import CANDIDATE, CONTROL, CanaryGuard, CanaryPlan
from router.contracts.failure_class import PROVIDER
from router.policies.model import SHARED
from router.policies.model.canaries import (
    CanaryCounts,
    CanaryTotals,
    CanaryVerdict,
    add_totals,
    judge,
)

GUARDS = (CanaryGuard("error_rate", 1.2), CanaryGuard("p95_latency", 1.2))
NOT_YET_MS, OVER_MS = 0, 10**15
LATENCIES = 4096  # different ones


@dataclass(frozen=True)
class Arm:
    """How an arm's requests end: the share of errors; latencies are lognormal around `median_ms`."""

    error_rate: float
    median_ms: float = 100.0
    spread: float = 0.5

    def draw_latencies(self, rng: random.Random) -> Sequence[float]:
        return [rng.lognormvariate(log(self.median_ms), self.spread) for _ in range(LATENCIES)]


@dataclass(frozen=True)
class Ended:
    """The verdict, after so many outcomes of the candidate. GO_ON: none within the time."""

    verdict: CanaryVerdict
    outcomes: int
    why: str


def play(
    control: Arm,
    candidate: Arm,
    *,
    rng: random.Random,
    share: float = 0.05,
    most: int = 1000,
    tenants: Sequence[float] = (),
    is_spiteful: bool = False,
) -> Ended:
    """Play until a verdict, or until the candidate has had `most` outcomes.

    `tenants`: weights, of a policy that all may use; `is_spiteful`: the first of them reports
    nothing but errors of the candidate.
    """
    plan = CanaryPlan(
        document={}, share=share * 100, guards=GUARDS, until_ms=OVER_MS, min_results=100
    )
    counts, arms = (
        CanaryCounts(SHARED if tenants else "acme", "default", 2),
        {CONTROL: control, CANDIDATE: candidate},
    )
    names, weights = (
        [f"tenant-{number}" for number in range(len(tenants) or 1)],
        list(accumulate(tenants or (1,))),
    )
    latencies = {name: arm.draw_latencies(rng) for name, arm in arms.items()}
    outcomes = 0
    while outcomes < most:
        name = CANDIDATE if rng.random() < share else CONTROL
        latency_ms = latencies[name][int(rng.random() * LATENCIES)]
        tenant = rng.choices(names, cum_weights=weights)[0] if tenants else names[0]
        is_error = (
            name == CANDIDATE
            if is_spiteful and tenant == names[0]
            else rng.random() < arms[name].error_rate
        )
        counts.on_result(name, PROVIDER if is_error else None, latency_ms, tenant)
        if name == CONTROL:
            continue
        outcomes += 1
        verdict, why = judge(plan, read_totals(counts), NOT_YET_MS)
        if verdict is not CanaryVerdict.GO_ON:
            return Ended(verdict, outcomes, why)
    return Ended(CanaryVerdict.GO_ON, outcomes, "")


def read_totals(counts: CanaryCounts) -> CanaryTotals:
    return add_totals([counts.build_record("node", "life")])
