"""What follows from the counts of a canary."""

from collections.abc import Sequence

import pytest
from msgspec.structs import astuple

from router.contracts.canary import CANDIDATE, CONTROL, CanaryGuard, CanaryPlan
from router.contracts.decision import Decision, Refusal
from router.contracts.failure_class import PROVIDER, FailureClass
from router.contracts.stored_record import record_bytes
from router.policies.model.canaries import (
    CanaryCounts,
    CanaryTotals,
    CanaryVerdict,
    GuardError,
    add_totals,
    is_one_sided,
    judge,
    parse_guard,
    parse_span_ms,
)
from router.policies.model.canaries.verdict import (
    BETTER,
    MUCH_WORSE,
    WORSE,
    Tally,
    compute_evidence,
    is_evident,
    list_findings,
)
from router.policies.model.canary import GROUPS, canary_key, read_canary_record

GUARDS = (CanaryGuard("error_rate", 1.2), CanaryGuard("p95_latency", 1.2))
END_MS = 1000


def a_plan(*guards: CanaryGuard, is_shadow: bool = False) -> CanaryPlan:
    return CanaryPlan(
        document={}, share=5, guards=guards, until_ms=END_MS, min_results=100, is_shadow=is_shadow
    )


def counts_of(
    *,
    control: tuple[int, int],
    candidate: tuple[int, int],
    latency_ms: tuple[float, float] = (100, 100),
) -> CanaryTotals:
    """Of each arm: outcomes, errors; and the latency of its successes."""
    counts = CanaryCounts("acme", "default", 2)
    for arm, (outcomes, errors), taken_ms in zip(
        (CONTROL, CANDIDATE), (control, candidate), latency_ms, strict=True
    ):
        for number in range(outcomes):
            counts.on_result(arm, PROVIDER if number < errors else None, taken_ms, "acme")
    return add_totals([counts.build_record("node", "life")])


@pytest.mark.parametrize(
    ("control", "candidate", "at_ms", "verdict"),
    [
        pytest.param(
            (1900, 190), (100, 40), 0, CanaryVerdict.ROLL_BACK, id="four times the errors"
        ),
        pytest.param(
            (1900, 0),
            (20, 12),
            0,
            CanaryVerdict.ROLL_BACK,
            id="errors where the version in force has none",
        ),
        pytest.param(
            (1900, 190), (100, 14), 0, CanaryVerdict.GO_ON, id="a little worse may be chance"
        ),
        pytest.param(
            (1900, 190),
            (100, 14),
            END_MS,
            CanaryVerdict.PROMOTE,
            id="its time is over and no guard is broken",
        ),
        pytest.param(
            (1900, 190),
            (99, 3),
            END_MS,
            CanaryVerdict.ROLL_BACK,
            id="its time is over with too few outcomes",
        ),
        pytest.param(
            (0, 0), (0, 0), END_MS, CanaryVerdict.ROLL_BACK, id="its time is over and nothing came"
        ),
        pytest.param((1900, 800), (400, 20), 0, CanaryVerdict.PROMOTE, id="better for certain"),
        pytest.param(
            (1900, 800), (99, 1), 0, CanaryVerdict.GO_ON, id="better, with too few outcomes"
        ),
    ],
)
def test_errors_decide(
    control: tuple[int, int], candidate: tuple[int, int], at_ms: int, verdict: CanaryVerdict
) -> None:
    assert (
        judge(a_plan(GUARDS[0]), counts_of(control=control, candidate=candidate), at_ms)[0]
        is verdict
    )


@pytest.mark.parametrize(
    ("latency_ms", "verdict"),
    [
        ((100, 200), CanaryVerdict.ROLL_BACK),
        ((100, 115), CanaryVerdict.PROMOTE),
        ((100, 50), CanaryVerdict.PROMOTE),
    ],
)
def test_slow_results_decide(latency_ms: tuple[float, float], verdict: CanaryVerdict) -> None:
    totals = counts_of(control=(4000, 0), candidate=(200, 0), latency_ms=latency_ms)
    assert judge(a_plan(GUARDS[1]), totals, 0)[0] is verdict


def test_the_note_says_which_guard_with_its_figures() -> None:
    _, why = judge(a_plan(*GUARDS), counts_of(control=(1900, 190), candidate=(100, 40)), 0)
    assert "error_rate<=1.2x broken (candidate 40.00% of 100, control 10.00% of 1900)" in why
    assert "p95_latency<=1.2x not broken" in why


def test_without_a_success_of_the_control_no_latency_is_compared() -> None:
    _, why = judge(a_plan(GUARDS[1]), counts_of(control=(90, 90), candidate=(90, 0)), 0)
    assert why == "p95_latency<=1.2x not broken (candidate 0.00% of 0, control 0.00% of 0)"


def test_a_shadow_only_ends_with_its_time() -> None:
    totals = counts_of(control=(1900, 0), candidate=(100, 100))
    assert judge(a_plan(is_shadow=True), totals, 0)[0] is CanaryVerdict.GO_ON
    assert judge(a_plan(is_shadow=True), totals, END_MS)[0] is CanaryVerdict.END


def test_a_shadow_is_compared_by_provider_and_by_what_both_expected() -> None:
    counts = CanaryCounts("acme", "default", 2)
    one, other = (
        Decision(name, "weighted", 50, latency, cost)
        for name, latency, cost in (("a", 100, 0.2), ("b", 300, 0.1))
    )
    for answer, shadow in (
        (one, one),
        (one, other),
        (one, Refusal("decision_failed", "none")),
        (one, one),
    ):
        counts.on_shadow(answer, shadow)
    _, told = judge(a_plan(is_shadow=True), add_totals([counts.build_record("node", "life")]), 0)
    assert told.startswith(
        "50.00% of 4 decisions differ; expected cost 0.1667 instead of 0.2, expected "
        "latency 166.7 ms instead of 100 ms"
    )


def test_counts_of_several_instances_are_added_up_and_an_order_of_outcomes_is_nothing() -> None:
    parts = [CanaryCounts("_shared", "default", 2) for _ in range(2)]
    whole = CanaryCounts("_shared", "default", 2)
    for number in range(200):
        outcome = PROVIDER if number % 7 == 0 else None
        for counts in (parts[number % 2], whole):
            counts.on_result(
                CANDIDATE if number % 3 == 0 else CONTROL, outcome, 10 + number, f"t{number % 5}"
            )
    together = add_totals(one.build_record("node", str(place)) for place, one in enumerate(parts))
    assert together == add_totals([whole.build_record("node", "life")])


def test_a_refusal_of_the_arm_is_an_error_and_what_is_not_its_providers_fault_is_nothing() -> None:
    counts = CanaryCounts("acme", "default", 2)
    counts.on_answer(CANDIDATE, Refusal("pre_processor_failed", "no"), "acme")
    counts.on_answer(CANDIDATE, Refusal("rate_limit_exceeded", "later"), "acme")
    counts.on_answer(CANDIDATE, Decision("a", "weighted", 50, 1, 1), "acme")
    for outcome in FailureClass:
        counts.on_result(CANDIDATE, outcome, 5, "acme")
    record = counts.build_record("node", "life").groups[0].candidate
    assert (record.outcomes, record.errors) == (3, 2)


def test_more_bad_outcomes_speak_more_against_it() -> None:
    assert compute_evidence([(Tally(0, 0), Tally(5, 100))], 1.0, WORSE) == pytest.approx(1.0)
    grown = [
        compute_evidence([(Tally(bad, 100), Tally(100, 1000))], 1.0, WORSE) for bad in (10, 20, 30)
    ]
    assert grown[0] < 1 < grown[1] < grown[2]
    worst = Tally(10**6, 10**6), Tally(0, 10**6)
    assert compute_evidence([worst], 1.0, WORSE) > 1e100  # and no overflow
    assert compute_evidence([worst] * 32, 1.0, WORSE, 14.0) == pytest.approx(14.0**32)


@pytest.mark.parametrize(("alternatives", "bad"), [(WORSE, 50), (MUCH_WORSE, 50), (BETTER, 200)])
def test_what_says_nothing_is_worth_1_and_what_says_the_contrary_next_to_nothing(
    alternatives: Sequence[tuple[float, float]], bad: int
) -> None:
    usual = Tally(1000, 10_000)
    assert compute_evidence([(Tally(0, 0), usual)], 1.0, alternatives) == pytest.approx(1)
    assert compute_evidence([(Tally(bad, 1000), usual)], 1.0, alternatives) < 0.01


def test_what_is_left_out_of_a_record_counts_nothing() -> None:
    data = b'{"tenant_id":"a","policy_id":"p","version":1,"node":"n","life":"l","groups":{"0":{}}}'
    totals = add_totals([read_canary_record(canary_key("a", "p", "l"), data)])
    assert astuple(totals.shadow) == (0,) * 7
    assert astuple(totals.candidate) == astuple(totals.control) == (0, 0, {})


def test_no_group_of_several_decides_alone_for_or_against() -> None:
    worst, best, none = (
        (Tally(10**4, 10**4), Tally(0, 10**4)),
        (Tally(0, 10**4), Tally(10**4, 10**4)),
        (Tally(0, 1), Tally(0, 1)),
    )
    assert compute_evidence([worst, none], 1.0, WORSE, 14.0) == pytest.approx(14.0)
    assert compute_evidence([worst, worst, best], 1.0, WORSE, 14.0) == pytest.approx(14.0**2 / 10)
    assert is_evident([worst, worst], 1.0, WORSE, 196.0)
    assert not is_evident([worst, none], 1.0, WORSE, 196.0)
    assert is_evident([worst], 1.0, WORSE, 196.0), "alone it decides"


def test_each_guard_alone_has_the_whole_chance_of_a_false_alarm() -> None:
    totals = counts_of(control=(1900, 190), candidate=(100, 23))
    one, both = (list_findings(a_plan(*guards), totals)[0] for guards in (GUARDS[:1], GUARDS))
    assert (one.is_broken, both.is_broken) == (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "error_rate<=0.5x",
        "error_rate<1.2x",
        "cost<=1.2x",
        "error_rate<=1.2",
        "p95_latency<=101x",
        "",
    ],
)
def test_a_guard_that_is_none_says_what_is_legal(text: str) -> None:
    with pytest.raises(GuardError, match=r"error_rate<=1\.2x or p95_latency<=1\.2x"):
        parse_guard(text)


def test_guards_and_times_are_read() -> None:
    assert parse_guard("p95_latency <= 1.5x") == CanaryGuard("p95_latency", 1.5)
    assert [parse_span_ms(text) for text in ("30s", "1h", "30d")] == [
        30_000,
        3_600_000,
        30 * 86_400_000,
    ]
    for text in ("31d", "0s", "1w", "h"):
        with pytest.raises(GuardError):
            parse_span_ms(text)


# -- a policy that all tenants may use


def shared_counts(**tenants: tuple[int, int, int, int]) -> CanaryTotals:
    """Of each tenant: outcomes and errors of control, then of the candidate."""
    counts = CanaryCounts("_shared", "default", 2)
    for tenant, (outcomes, errors, others, other_errors) in tenants.items():
        for arm, count, bad in ((CONTROL, outcomes, errors), (CANDIDATE, others, other_errors)):
            for number in range(count):
                counts.on_result(arm, PROVIDER if number < bad else None, 100, tenant)
    return add_totals([counts.build_record("node", "life")])


USUAL = (400, 40, 100, 10)
BAD = (400, 40, 100, 60)
SPITEFUL = (5000, 0, 5000, 5000)  # the candidate fails, it says
FLATTERING = (5000, 5000, 5000, 0)


def test_a_tenant_that_reports_errors_of_the_candidate_does_not_roll_it_back_alone_and_keeps_it_from_being_promoted() -> (
    None
):
    totals = shared_counts(acme=USUAL, third=USUAL, spiteful=SPITEFUL)
    verdict, why = judge(a_plan(GUARDS[0]), totals, 0)
    assert (verdict, "broken by one group of tenants" in why) == (CanaryVerdict.GO_ON, True)
    assert is_one_sided(a_plan(GUARDS[0]), totals)
    assert judge(a_plan(GUARDS[0]), totals, END_MS)[0] is CanaryVerdict.ROLL_BACK


def test_a_tenant_that_praises_the_candidate_promotes_it_neither_early_nor_with_outcomes_of_its_own_alone() -> (
    None
):
    totals = shared_counts(acme=(400, 40, 10, 1), flattering=FLATTERING)
    assert judge(a_plan(GUARDS[0]), totals, 0)[0] is CanaryVerdict.GO_ON
    verdict, why = judge(a_plan(GUARDS[0]), totals, END_MS)
    assert (verdict, "too few outcomes" in why) == (CanaryVerdict.ROLL_BACK, True)


def test_a_tenant_that_praises_a_candidate_that_fails_for_the_others_does_not_save_it() -> None:
    totals = shared_counts(acme=BAD, third=BAD, fourth=BAD, fifth=BAD, flattering=FLATTERING)
    assert judge(a_plan(GUARDS[0]), totals, 0)[0] is CanaryVerdict.ROLL_BACK


def test_what_two_tenants_see_decides_and_a_tenant_alone_decides_for_itself() -> None:
    assert (
        judge(a_plan(GUARDS[0]), shared_counts(acme=BAD, third=BAD), 0)[0]
        is CanaryVerdict.ROLL_BACK
    )
    assert judge(a_plan(GUARDS[0]), shared_counts(acme=BAD), 0)[0] is CanaryVerdict.ROLL_BACK


def test_the_record_stays_small_however_many_tenants_there_are() -> None:
    counts = CanaryCounts("_shared", "default", 2)
    for number in range(5000):
        counts.on_result(CANDIDATE, None, 10.0 * 1.01 ** (number % 900), f"tenant-{number}")
    record = counts.build_record("node", "life")
    assert len(record.groups) == GROUPS
    assert len(record_bytes(record)) < 200_000
