"""What follows from the counts of a canary: promote it, roll it back, or go on (docs/reference/canary.md#verdict).

    a guard is broken for certain          -> roll back, at once
    every guard holds for certain          -> promote, at once
    the time is over: too few outcomes     -> roll back
                      no guard is broken   -> promote
    else                                   -> not yet

"For certain" is the sequential test's word. A shadow only ends with its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.canary import ERROR_RATE, CanaryGuard, CanaryPlan
from router.contracts.canary_record import ArmRecord, CanaryRecord, ShadowRecord, add_arms, add_shadows
from router.routing.canary.sequential import BETTER, MUCH_WORSE, WORSE, Tally, compute_evidence
from router.routing.measurements.latencies import find_bucket, find_edge

FALSE_ALARM = 0.01  # of a canary that does not differ, all its guards together
ALLOWED_ALARM = 0.05  # of one that is just as bad as a guard allows
FALSE_ACCEPTANCE = 0.01  # of one that is just as bad as a guard allows: it is promoted before its time
TAIL = 0.05  # of the outcomes lie above the p95


class CanaryTotals(Struct, frozen=True):
    """What all instances have counted together."""

    control: ArmRecord = ArmRecord()
    candidate: ArmRecord = ArmRecord()
    shadow: ShadowRecord = ShadowRecord()


class GuardFinding(Struct, frozen=True):
    """One guard. `control` and `candidate`: the shares of errors, or of results slower than the guard allows."""

    guard: CanaryGuard
    control: Tally
    candidate: Tally
    p95_ms: float | None = None  # the control's
    is_broken: bool = False
    holds: bool = False

    @property
    def text(self) -> str:
        state = "broken" if self.is_broken else "holds" if self.holds else "not broken"
        figures = f"candidate {_show(self.candidate)}, control {_show(self.control)}"
        if self.p95_ms is not None:
            figures = f"slower than {self.guard.ratio:g} × the control's p95 of {self.p95_ms:.4g} ms: {_show(self.candidate)}"
        return f"{self.guard} {state} ({figures})"


class CanaryVerdict(Enum):
    GO_ON = "running"
    PROMOTE = "promoted"
    ROLL_BACK = "rolled back"
    END = "ended"  # a shadow


def add_totals(records: Iterable[CanaryRecord]) -> CanaryTotals:
    known = tuple(records)
    if not known:
        return CanaryTotals()
    controls, candidates = (one.control for one in known), (one.candidate for one in known)
    return CanaryTotals(add_arms(controls), add_arms(candidates), add_shadows(one.shadow for one in known))


def judge(plan: CanaryPlan, totals: CanaryTotals, now_ms: float) -> tuple[CanaryVerdict, str]:
    """The verdict, and why, as the note of the version that follows from it."""
    is_over = now_ms >= plan.until_ms
    if plan.is_shadow:
        return (CanaryVerdict.END if is_over else CanaryVerdict.GO_ON), describe_shadow(totals.shadow)
    findings = list_findings(plan, totals)
    told = "; ".join(one.text for one in findings) or "no guards"
    outcomes = totals.candidate.outcomes
    if any(one.is_broken for one in findings):
        return CanaryVerdict.ROLL_BACK, told
    if findings and outcomes >= plan.min_results and all(one.holds for one in findings):
        return CanaryVerdict.PROMOTE, told
    if not is_over:
        return CanaryVerdict.GO_ON, told
    if outcomes < plan.min_results:
        return CanaryVerdict.ROLL_BACK, f"too few outcomes of the candidate to say: {outcomes} of {plan.min_results}; {told}"
    return CanaryVerdict.PROMOTE, f"its time is over; {told}"


def list_findings(plan: CanaryPlan, totals: CanaryTotals) -> list[GuardFinding]:
    return [_look(guard, totals, len(plan.guards)) for guard in plan.guards]


def describe_shadow(shadow: ShadowRecord) -> str:
    if not shadow.decisions:
        return "no decision had a shadow yet"
    told = f"{shadow.differences / shadow.decisions:.2%} of {shadow.decisions} decisions differ"
    if not shadow.both:
        return told
    cost, other = shadow.control_cost / shadow.both, shadow.candidate_cost / shadow.both
    latency, later = shadow.control_latency_ms / shadow.both, shadow.candidate_latency_ms / shadow.both
    return f"{told}; expected cost {other:.4g} instead of {cost:.4g}, expected latency {later:.4g} ms instead of {latency:.4g} ms"


def _look(guard: CanaryGuard, totals: CanaryTotals, guards: int) -> GuardFinding:
    if guard.figure == ERROR_RATE:
        control, candidate = (Tally(arm.errors, arm.outcomes) for arm in (totals.control, totals.candidate))
        return _decide(GuardFinding(guard, control, candidate), guard.ratio, guards)
    return _look_at_latency(guard, totals, guards)


def _look_at_latency(guard: CanaryGuard, totals: CanaryTotals, guards: int) -> GuardFinding:
    """Whether more than 5 % of the candidate's successes are slower than the p95 that the guard allows."""
    successes = sum(totals.control.latencies.values())
    top = _find_p95_bucket(totals.control, successes)
    if top is None:
        return GuardFinding(guard, Tally(0, 0), Tally(0, 0))
    p95_ms = find_edge(top)
    limit = find_bucket(guard.ratio * p95_ms)
    slow = sum(count for bucket, count in totals.candidate.latencies.items() if bucket > limit)
    # Of the control 5 % are slower than its p95, whatever part of them lies in the bucket of the p95 itself.
    control, candidate = Tally(TAIL * successes, successes), Tally(slow, sum(totals.candidate.latencies.values()))
    return _decide(GuardFinding(guard, control, candidate, p95_ms), 1.0, guards)


def _decide(finding: GuardFinding, ratio: float, guards: int) -> GuardFinding:
    """`ratio`: how many times the control's share of bad outcomes is allowed."""
    control, candidate = finding.control, finding.candidate
    is_worse = candidate.share > ratio * control.share
    is_broken = (
        is_worse
        and compute_evidence(candidate, control, 1.0, WORSE) >= guards / FALSE_ALARM
        and compute_evidence(candidate, control, ratio, MUCH_WORSE) >= 1 / ALLOWED_ALARM
    )
    holds = not is_worse and compute_evidence(candidate, control, ratio, BETTER) >= 1 / FALSE_ACCEPTANCE
    return replace(finding, is_broken=is_broken, holds=holds)


def _find_p95_bucket(arm: ArmRecord, successes: int) -> int | None:
    left = (1 - TAIL) * successes
    for bucket in sorted(arm.latencies):
        left -= arm.latencies[bucket]
        if left <= 0:
            return bucket
    return None


def _show(tally: Tally) -> str:
    return f"{tally.share:.2%} of {tally.all:.0f}"
