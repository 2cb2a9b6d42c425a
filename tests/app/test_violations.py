"""Broken header rules are counted one by one, and alerted when they come in numbers."""

from router.app.violations import MANY, WITHIN_S, Violations
from router.observability import Metrics
from tests.support.app import Told
from tests.support.delivery import a_delivery

BROKEN = (("trace_id", "empty"),)


def violated(told: Told, times: int, every_s: float) -> Metrics:
    metrics = Metrics()
    violations = Violations(metrics, told.alerts, told.clock)
    for _ in range(times):
        violations.note(a_delivery(), BROKEN)
        told.clock.now += every_s
    return metrics


def test_each_is_counted_under_its_rule() -> None:
    metrics = violated(Told(), 3, 0.0)
    assert metrics.violations["work", "trace_id", "empty"] == 3


def test_ten_within_a_minute_are_one_alert() -> None:
    told = Told()
    violated(told, MANY + 5, WITHIN_S / MANY)
    assert told.causes == ["contract_violations:work"]


def test_nine_and_slow_ones_are_none() -> None:
    few, slow = Told(), Told()
    violated(few, MANY - 1, 0.0)
    violated(slow, 3 * MANY, WITHIN_S / (MANY - 2))
    assert (few.causes, slow.causes) == ([], [])
