"""What follows from the counts of a canary and its guards: promote it, roll it back, or go on
(docs/reference/canary.md#verdict).

    a guard is broken for certain          -> roll back, at once
    every guard holds for certain          -> promote, at once
    the time is over: too few outcomes     -> roll back
                      a guard is broken by one group of tenants alone -> roll back
                      no guard is broken   -> promote
    else                                   -> not yet

"For certain" is the sequential test's word, which stands first; of several groups of tenants none
decides alone (docs/reference/canary.md#tenants). A shadow only ends with its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from math import exp, inf, log, prod

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.canary import (
    ERROR_RATE,
    GUARDED,
    MAX_RATIO,
    MAX_SPAN_MS,
    CanaryGuard,
    CanaryPlan,
)
from router.policies.model.canary import (
    ArmRecord,
    CanaryRecord,
    GroupRecord,
    ShadowRecord,
    add_arms,
    add_groups,
    add_shadows,
)
from router.policies.model.measurements.values import find_bucket, find_edge

# -- The guards, and the verdict.

FALSE_ALARM = 0.01  # of a canary that does not differ, all its guards together
ALLOWED_ALARM = 0.05  # of one that is just as bad as a guard allows
# of one that is just as bad as a guard allows: it is promoted before its time
FALSE_ACCEPTANCE = 0.01
TAIL = 0.05  # of the outcomes lie above the p95


class CanaryTotals(Struct, frozen=True):
    """What all instances have counted together. `groups`: those of tenants that have had any
    outcome.
    """

    groups: tuple[GroupRecord, ...] = ()
    shadow: ShadowRecord = ShadowRecord()

    @property
    def control(self) -> ArmRecord:
        return add_arms(group.control for group in self.groups)

    @property
    def candidate(self) -> ArmRecord:
        return add_arms(group.candidate for group in self.groups)


class GuardFinding(Struct, frozen=True):
    """One guard. `control` and `candidate`: the shares of errors, or of results slower than the
    guard allows.

    `is_one_sided`: all outcomes together break it, and those of one group of tenants weigh so much
    that it is not broken for certain.
    """

    guard: CanaryGuard
    control: Tally
    candidate: Tally
    p95_ms: float | None = None  # the control's
    is_broken: bool = False
    holds: bool = False
    is_one_sided: bool = False

    @property
    def text(self) -> str:
        state = "broken" if self.is_broken else "holds" if self.holds else "not broken"
        if self.is_one_sided:
            state = "broken by one group of tenants"
        figures = f"candidate {_show(self.candidate)}, control {_show(self.control)}"
        if self.p95_ms is not None:
            figures = (
                f"slower than {self.guard.ratio:g} × the control's p95 of {self.p95_ms:.4g} "
                f"ms: {_show(self.candidate)}"
            )
        return f"{self.guard} {state} ({figures})"


class CanaryVerdict(Enum):
    GO_ON = "running"
    PROMOTE = "promoted"
    ROLL_BACK = "rolled back"
    END = "ended"  # a shadow


def add_totals(records: Iterable[CanaryRecord]) -> CanaryTotals:
    all_records = tuple(records)
    if not all_records:
        return CanaryTotals()
    return CanaryTotals(
        add_groups(all_records), add_shadows(record.shadow for record in all_records)
    )


def judge(plan: CanaryPlan, totals: CanaryTotals, now_ms: float) -> tuple[CanaryVerdict, str]:
    """The verdict, and why, as the note of the version that follows from it."""
    is_over = now_ms >= plan.until_ms
    if plan.is_shadow:
        return (CanaryVerdict.END if is_over else CanaryVerdict.GO_ON), describe_shadow(
            totals.shadow
        )
    findings = list_findings(plan, totals)
    told = "; ".join(finding.text for finding in findings) or "no guards"
    outcomes = _count_outcomes(totals, plan.min_results)
    if any(finding.is_broken for finding in findings):
        return CanaryVerdict.ROLL_BACK, told
    if findings and outcomes >= plan.min_results and all(finding.holds for finding in findings):
        return CanaryVerdict.PROMOTE, told
    if not is_over:
        return CanaryVerdict.GO_ON, told
    if outcomes < plan.min_results:
        return (
            CanaryVerdict.ROLL_BACK,
            f"too few outcomes of the candidate to say: {outcomes} of {plan.min_results}; {told}",
        )
    if any(finding.is_one_sided for finding in findings):
        return CanaryVerdict.ROLL_BACK, f"its time is over; {told}"
    return CanaryVerdict.PROMOTE, f"its time is over; {told}"


def is_one_sided(plan: CanaryPlan, totals: CanaryTotals) -> bool:
    """Whether one group of tenants has it much worse, and the others have not."""
    return not plan.is_shadow and any(
        finding.is_one_sided for finding in list_findings(plan, totals)
    )


def _count_outcomes(totals: CanaryTotals, needed: int) -> int:
    """Of the candidate. Where there are several groups of tenants, one brings at most half of what
    is needed.
    """
    most = max(1, needed // 2) if len(totals.groups) > 1 else totals.candidate.outcomes
    return sum(min(group.candidate.outcomes, most) for group in totals.groups)


def list_findings(plan: CanaryPlan, totals: CanaryTotals) -> list[GuardFinding]:
    return [_look(guard, totals, len(plan.guards)) for guard in plan.guards]


def describe_shadow(shadow: ShadowRecord) -> str:
    if not shadow.decisions:
        return "no decision had a shadow yet"
    told = f"{shadow.differences / shadow.decisions:.2%} of {shadow.decisions} decisions differ"
    if not shadow.both:
        return told
    cost, other = shadow.control_cost / shadow.both, shadow.candidate_cost / shadow.both
    latency, later = (
        shadow.control_latency_ms / shadow.both,
        shadow.candidate_latency_ms / shadow.both,
    )
    return (
        f"{told}; expected cost {other:.4g} instead of {cost:.4g}, expected latency "
        f"{later:.4g} ms instead of {latency:.4g} ms"
    )


def _look(guard: CanaryGuard, totals: CanaryTotals, guards: int) -> GuardFinding:
    whole = GroupRecord(totals.control, totals.candidate)
    candidate, control = _build_pair(guard, whole)
    finding = GuardFinding(
        guard,
        control,
        candidate,
        _find_p95_ms(whole.control) if guard.figure != ERROR_RATE else None,
    )
    pairs = [_build_pair(guard, group) for group in totals.groups]
    # How many times the control's share of bad outcomes is allowed: what is slower than the guard
    # allows is bad already.
    ratio = guard.ratio if guard.figure == ERROR_RATE else 1.0
    is_broken = _is_broken(pairs, ratio, guards)
    is_one_sided = (
        not is_broken and len(pairs) > 1 and _is_broken([(candidate, control)], ratio, guards)
    )
    holds = (
        not is_one_sided
        and not is_broken
        and is_evident(pairs, ratio, BETTER, 1 / FALSE_ACCEPTANCE)
    )
    return replace(finding, is_broken=is_broken, holds=holds, is_one_sided=is_one_sided)


def _is_broken(pairs: Sequence[Pair], ratio: float, guards: int) -> bool:
    return is_evident(pairs, 1.0, WORSE, guards / FALSE_ALARM) and is_evident(
        pairs, ratio, MUCH_WORSE, 1 / ALLOWED_ALARM
    )


def _build_pair(guard: CanaryGuard, group: GroupRecord) -> Pair:
    """Candidate and control."""
    if guard.figure == ERROR_RATE:
        return Tally(group.candidate.errors, group.candidate.outcomes), Tally(
            group.control.errors, group.control.outcomes
        )
    return _build_latency_pair(guard, group)


def _build_latency_pair(guard: CanaryGuard, group: GroupRecord) -> Pair:
    """Whether more than 5 % of the candidate's successes are slower than the p95 that the guard
    allows.
    """
    p95_ms = _find_p95_ms(group.control)
    if p95_ms is None:
        return Tally(0, 0), Tally(0, 0)
    limit = find_bucket(guard.ratio * p95_ms)
    successes, latencies = sum(group.control.latencies.values()), group.candidate.latencies
    slow = sum(count for bucket, count in latencies.items() if bucket > limit)
    # Of the control 5 % are slower than its p95, whatever part of them lies in the bucket of the
    # p95 itself.
    return Tally(slow, sum(latencies.values())), Tally(TAIL * successes, successes)


def _find_p95_ms(arm: ArmRecord) -> float | None:
    top = _find_p95_bucket(arm, sum(arm.latencies.values()))
    return find_edge(top) if top is not None else None


def _find_p95_bucket(arm: ArmRecord, successes: int) -> int | None:
    left = (1 - TAIL) * successes
    for bucket in sorted(arm.latencies):
        left -= arm.latencies[bucket]
        if left <= 0:
            return bucket
    return None


def _show(tally: Tally) -> str:
    return f"{tally.share:.2%} of {tally.all:.0f}"


# -- The sequential test of two shares, which may be looked at after every outcome
# (docs/reference/canary.md#test).
# If the candidate's share of bad outcomes is `ratio` times the other's, a bad one falls to the
# candidate with the chance ratio × n1 ÷ (ratio × n1 + n0), n1 and n0 being the outcomes of
# both. The evidence is a mixture of the likelihood ratios of `alternatives` against that
# chance: its expectation is at most 1 at every moment, so it exceeds 1 ÷ alpha in a share alpha
# of all canaries at most (Ville's inequality).

WORSE = ((1.5, 0.3), (2.0, 0.4), (4.0, 0.2), (10.0, 0.1))  # times, weight: against no difference
MUCH_WORSE = ((1.67, 0.7), (3.0, 0.2), (8.0, 0.1))  # against what a guard allows
# than what a guard allows; 0.83 is no difference under 1.2
BETTER = ((0.83, 0.4), (0.6, 0.3), (0.3, 0.2), (0.05, 0.1))
MAX_EXPONENT = 600.0

# Of several groups of tenants the ratios are multiplied, each within bounds: one group brings at
# most MOST of what is needed, and takes away at most nine tenths of what there is. The promise
# stays: a tenth of each group's stake is never wagered, and a bound can only lower the expectation.
KEPT_STAKE = 0.1  # of a group's stake, where there are several groups
# of the evidence that is needed, by its logarithm, is what one group of several may bring
MOST = 0.6


class Tally(Struct, frozen=True):
    """Bad ones of all outcomes. `bad` of a share that is known to be at least so large may be a
    fraction.
    """

    bad: float
    all: float

    @property
    def share(self) -> float:
        return self.bad / self.all if self.all else 0.0


Pair = tuple[Tally, Tally]  # the one, the other


def is_evident(
    pairs: Sequence[Pair], ratio: float, alternatives: Sequence[tuple[float, float]], needed: float
) -> bool:
    """Whether the evidence reaches what is needed, where no group of several may bring it alone."""
    return compute_evidence(pairs, ratio, alternatives, needed**MOST) >= needed


def compute_evidence(
    pairs: Sequence[Pair],
    ratio: float,
    alternatives: Sequence[tuple[float, float]],
    most: float = inf,
) -> float:
    """Against: the one's share of bad outcomes is `ratio` times the other's. 1: nothing speaks
    against it.

    `pairs`: one for each group of tenants. `most`: what one group of several may bring.
    """
    if len(pairs) == 1:
        return sum(weight * _compare(pairs[0], ratio, times) for times, weight in alternatives)
    return sum(
        weight * prod(_limit(_compare(pair, ratio, times), most) for pair in pairs)
        for times, weight in alternatives
    )


def _limit(likelihoods: float, most: float) -> float:
    return min(KEPT_STAKE + (1 - KEPT_STAKE) * likelihoods, most)


def _compare(pair: Pair, ratio: float, times: float) -> float:
    """How many times likelier it is that the one's share is `times` as large as `ratio` says."""
    one, other = pair
    if not one.all or not other.all:
        return 1.0
    expected, chance = _chance(one, other, ratio), _chance(one, other, ratio * times)
    return exp(
        min(
            MAX_EXPONENT,
            one.bad * log(chance / expected) + other.bad * log((1 - chance) / (1 - expected)),
        )
    )


def _chance(one: Tally, other: Tally, ratio: float) -> float:
    """That a bad outcome is the one's."""
    return ratio * one.all / (ratio * one.all + other.all)


# -- What is typed for a canary: guards like `error_rate<=1.2x`, times like `1h`.


_GUARD = re.compile(r"([a-z0-9_]{1,32})\s*<=\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)x")
_SPAN = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class GuardError(ValueError):
    """It says what is legal."""


def parse_guard(text: str) -> CanaryGuard:
    """Raises GuardError."""
    match = _GUARD.fullmatch(text.strip())
    if match is None or match[1] not in GUARDED or not 1 <= float(match[2]) <= MAX_RATIO:
        raise GuardError(
            f"write {' or '.join(f'{name}<=1.2x' for name in GUARDED)}; the factor is 1 … "
            f"{MAX_RATIO:g}"
        )
    return CanaryGuard(match[1], float(match[2]))


def parse_span_ms(text: str) -> int:
    """`30s`, `10m`, `1h`, `7d`. Raises GuardError."""
    match = _SPAN.fullmatch(text.strip())
    span_ms = int(match[1]) * _UNIT_MS[match[2]] if match is not None else 0
    if not 0 < span_ms <= MAX_SPAN_MS:
        raise GuardError("write 30s, 10m, 1h or 7d; at most 30d")
    return span_ms
