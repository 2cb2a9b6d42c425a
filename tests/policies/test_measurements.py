"""What is learned of a provider, what is forgotten, and what is in flight."""

import pytest

from router.contracts.failure_class import FailureClass
from router.policies.model.measurements import (
    Measurements,
    find_percentile,
    measured_tenant,
)
from router.policies.model.measurements.values import LearnedFigures, TenantFigures, find_bucket
from tests.support.measurements import TENANT, SomeMeasurements


def test_nothing_is_said_before_the_minimum_of_samples() -> None:
    some = SomeMeasurements()
    some.report(times=4)
    before = some.figures()
    assert (before.samples, before.score, before.cost, before.p95_latency_ms) == (
        4,
        None,
        None,
        None,
    )
    some.report()
    assert some.figures().score is not None


def test_a_result_that_was_seen_before_the_next_refresh_is_one_sample_more() -> None:
    some = SomeMeasurements()
    for samples in (1, 2, 3):
        some.report()
        seen = some.figures_of(TENANT)["a"]
        assert (seen.samples, seen.in_flight) == (samples, 0)
    assert some.figures().samples == 3


def test_a_provider_that_is_dropped_fails_no_more() -> None:
    figures = TenantFigures()
    figures.put("a", LearnedFigures(is_failing=True))
    figures.choices[1] = figures.sound[1] = (None, None)
    assert figures.failing == {"a"}
    figures.drop("a")
    assert (dict(figures), figures.failing, figures.choices, figures.sound) == ({}, set(), {}, {})


@pytest.mark.parametrize("usual_ms", [0.2, 100])
def test_a_peak_counts_at_once_and_a_lower_latency_little_by_little(usual_ms: float) -> None:
    some = SomeMeasurements()
    some.report(times=9, latency_ms=usual_ms)
    some.report(latency_ms=5 * usual_ms)
    assert some.figures().latency_ms == 5 * usual_ms
    for seconds, left in ((0, 0.9), (2.5, 0.8), (60, 0.7)):
        before = (some.figures().latency_ms or 0) - usual_ms
        some.clock.at += seconds
        some.report(latency_ms=usual_ms)
        assert some.figures().latency_ms == pytest.approx(usual_ms + left * before)


def test_one_wrong_figure_is_clipped() -> None:
    some = SomeMeasurements()
    some.report(times=9, latency_ms=100, cost=1.0)
    some.report(latency_ms=1e18, cost=1e300)
    known = some.figures()
    assert (known.latency_ms, known.cost) == (1000, pytest.approx(1.9))
    some.report("b", 5, latency_ms=1e18, cost=1e300)
    assert (some.figures("b").latency_ms, some.figures("b").cost) == (3_600_000, 1e9)


def test_a_provider_that_fails_fast_has_the_worse_score() -> None:
    some = SomeMeasurements()
    some.report("slow", 20, latency_ms=2000)
    some.report("failing", 20, latency_ms=100)
    some.report("failing", 20, latency_ms=1, ok=False)
    some.report("never", 20, latency_ms=1, ok=False)
    known = {name: some.figures(name).score or 0.0 for name in ("slow", "failing", "never")}
    assert known["slow"] < known["failing"] < known["never"]
    some.report("never", 100, latency_ms=1, ok=False)
    assert some.figures("never").score == pytest.approx(60_000 / 0.01**2)


def test_a_neutral_outcome_ends_its_assignment_and_teaches_nothing() -> None:
    some = SomeMeasurements()
    some.on_assigned(TENANT, "a", "r-1")
    assert some.figures().in_flight == 1
    some.on_result(TENANT, "a", "r-1", 1.0, 0.0, FailureClass.REQUEST)
    assert (some.figures().in_flight, some.figures().samples) == (0, 0)


def test_what_is_in_flight_multiplies_the_score_and_ends_with_a_result() -> None:
    some = SomeMeasurements()
    some.report(times=10, latency_ms=100)
    for number in range(3):
        some.on_assigned(TENANT, "a", f"r-{number}")
    assert some.figures().score == pytest.approx(400)
    some.on_result(TENANT, "a", "r-1", 100.0, 0.01, None)
    assert some.figures().score == pytest.approx(300)


@pytest.mark.parametrize(
    ("looks", "in_flight"),
    [([119.9], 1), ([120], 0), ([60, 119.9], 1), ([60, 120], 0), ([59.9, 119.8], 1)],
)
def test_a_result_that_never_comes_expires_after_one_to_two_minutes(
    looks: list[float], in_flight: int
) -> None:
    some = SomeMeasurements()
    some.on_assigned(TENANT, "a", "r-1")
    for some.clock.at in looks:
        found = some.figures().in_flight
    assert found == in_flight


def test_what_is_in_flight_is_bounded_for_a_tenant_and_every_provider_keeps_a_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measured_tenant, "MAX_IN_FLIGHT", 200)
    some = SomeMeasurements()
    for number in range(500):
        some.on_assigned(TENANT, "a", f"{number:018}")
    for number in range(150):
        some.on_assigned(TENANT, "b", f"{number:018}")
    assert (some.figures("a").in_flight, some.figures("b").in_flight, some.figures("a").chosen) == (
        200,
        100,
        500,
    )


def test_a_score_fades_when_its_provider_is_silent_and_the_last_minutes_are_forgotten() -> None:
    some = SomeMeasurements()
    some.report(times=10, latency_ms=100)
    some.report(times=5, ok=False)
    first = some.figures()
    assert (first.recent_success_rate, first.p95_latency_ms) == (
        pytest.approx(2 / 3),
        pytest.approx(100, rel=0.05),
    )
    some.clock.at += 600
    later = some.figures()
    assert later.score is not None
    assert first.score is not None
    assert later.score < first.score / 9
    assert (later.recent_success_rate, later.p95_latency_ms, later.cost) == (None, None, first.cost)


def test_half_and_a_twentieth_of_the_results_are_slower_than_the_percentiles() -> None:
    some = SomeMeasurements()
    for number in range(100):
        some.report(latency_ms=100 if number < 51 else 1000 if number < 96 else 9000)
    known = some.figures()
    assert (known.p50_latency_ms, known.p95_latency_ms) == (
        pytest.approx(100, rel=0.05),
        pytest.approx(1000, rel=0.05),
    )


def test_a_score_fades_in_proportion_to_a_silence_of_more_than_a_minute() -> None:
    some = SomeMeasurements()
    some.report(times=5, latency_ms=100)
    for silent_s, score in ((60, 100), (120, 50), (600, 10)):
        some.clock.at = silent_s
        assert some.figures().score == pytest.approx(score)


def test_the_pair_longest_without_an_outcome_goes_first() -> None:
    some = SomeMeasurements(limit=2)
    for provider in ("a", "b", "a", "c"):
        some.report(provider)
        some.figures(provider)
    assert sorted(some.figures_of(TENANT)) == sorted(some.errors_of(TENANT)) == ["a", "c"]
    assert sorted(some._tenants[TENANT]._elsewhere) == ["a", "c"]


def test_a_tenant_that_no_reader_asks_for_keeps_no_names_of_forgotten_providers() -> None:
    some = SomeMeasurements(limit=2)
    for number in range(100):
        some.report(f"p-{number}")
    assert len(some._tenants[TENANT].changed) == 2


def test_with_its_last_provider_a_tenant_is_forgotten() -> None:
    some = SomeMeasurements(limit=1)
    some.report()
    some.on_result("other", "a", "r", 1.0, 0.0, None)
    assert not some.figures_of(TENANT)
    assert (len(some), some.list_changed(lambda _: 0.0, 10)) == (1, ["other"])


@pytest.mark.parametrize("latency_ms", [0.0, 1.0, 7.0, 99.0, 1234.0, 3_600_000.0])
def test_a_percentile_is_off_by_a_twentieth_at_most(latency_ms: float) -> None:
    found = find_percentile({find_bucket(latency_ms): 10}, 0.95)
    assert found == pytest.approx(latency_ms, rel=0.05, abs=0.5)


# -- several instances -----------------------------------------------------------------------------


def share(one: SomeMeasurements, other: SomeMeasurements) -> None:
    record = one.build_record(TENANT, "node", "life-1")
    assert record is not None
    other.apply(record, 0.0)


def test_the_newest_moving_figures_count_and_counts_are_added_up() -> None:
    one = SomeMeasurements()
    other = SomeMeasurements(one.clock)
    other.report(times=4, latency_ms=900)
    one.clock.at += 1
    one.report(times=4, latency_ms=100)
    one.on_assigned(TENANT, "a", "r-1")
    share(one, other)
    known = other.figures()
    assert (known.samples, known.latency_ms, known.in_flight, known.chosen) == (8, 100, 1, 1)
    assert known.p95_latency_ms == pytest.approx(900, rel=0.05)


def test_an_older_record_changes_no_moving_figure() -> None:
    one = SomeMeasurements()
    other = SomeMeasurements(one.clock)
    one.report(times=9, latency_ms=900)
    one.clock.at += 1
    other.report(times=9, latency_ms=100)
    share(one, other)
    assert other.figures().latency_ms == 100


def test_a_result_that_another_instance_handled_ends_the_assignment() -> None:
    one = SomeMeasurements()
    other = SomeMeasurements(one.clock)
    one.on_assigned(TENANT, "a", "0123456789-r-1-and-more")
    other.on_result(TENANT, "a", "0123456789-r-1-and-more", 5.0, 0.0, None)
    one.build_record(TENANT, "node", "life-2")
    share(other, one)
    assert one.list_changed(lambda _: 0.0, 1) == [TENANT]  # so that the others hear of it
    share(other, one)  # records name it several times
    assert one.figures().in_flight == 0


def test_what_another_instance_had_in_flight_is_forgotten_with_it() -> None:
    one = SomeMeasurements()
    other = SomeMeasurements(one.clock)
    one.on_assigned(TENANT, "a", "r-1")
    share(one, other)
    assert other.figures().in_flight == 1
    one.clock.at += 61
    assert other.figures().in_flight == 0
    other.keep_others({})
    assert other.figures().chosen == 0


def test_the_minutes_of_another_instance_are_forgotten_with_their_time() -> None:
    one = SomeMeasurements()
    other = SomeMeasurements(one.clock)
    for number in range(2):
        one.clock.at = 60 * number
        one.on_assigned(TENANT, "a", f"r-{number}")
    share(one, other)
    for seconds, chosen in ((59, 2), (60, 1), (119, 1), (120, 0)):
        one.clock.at = 60 + seconds
        assert other.figures().chosen == chosen


def test_what_has_changed_is_made_into_figures_by_the_next_reader() -> None:
    """Most policies read none, so an assignment or a result makes none."""
    measurements = Measurements(now=lambda: 0.0)
    measurements.on_assigned("acme", "openai", "a-1")
    before = measurements.figures_of("acme")["openai"]
    measurements.on_assigned("acme", "openai", "b-2")
    assert measurements._tenants["acme"].figures["openai"] is before
    assert measurements.figures_of("acme")["openai"].in_flight == 2
