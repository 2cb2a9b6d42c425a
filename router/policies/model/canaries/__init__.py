"""Is the candidate of a canary worse than the version in force? Pure: counts become a verdict; no
broker, no clock.

    outcomes of requests ── CanaryCounts ──> counts by arm ── judge ──> promote | roll back | not yet, with its reason in figures
                                                                └─ `verdict`: a test that may be looked at after every outcome

`policies.canaries` shares the counts among instances and writes the verdict as a version of the
policy.
"""

from router.policies.model.canaries.counts import CanaryCounts
from router.policies.model.canaries.verdict import (
    CanaryTotals,
    CanaryVerdict,
    GuardError,
    GuardFinding,
    add_totals,
    is_one_sided,
    judge,
    parse_guard,
    parse_span_ms,
)

__all__ = [
    "CanaryCounts",
    "CanaryTotals",
    "CanaryVerdict",
    "GuardError",
    "GuardFinding",
    "add_totals",
    "is_one_sided",
    "judge",
    "parse_guard",
    "parse_span_ms",
]
