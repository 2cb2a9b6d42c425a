"""Broken header rules are counted one by one, and alerted when they come in numbers."""

from msgspec.structs import replace

from router.core.message import Message
from router.operations.observability import Metrics
from router.services.violations import MOST_UNSETTLED, VIOLATIONS_LIMIT, VIOLATIONS_WINDOW_S, Violations
from tests.support.app import RecordedAlerts
from tests.support.delivery import a_delivery

BROKEN = (("trace_id", "empty"),)


def violated(told: RecordedAlerts, times: int, every_s: float) -> Metrics:
    metrics = Metrics()
    violations = Violations(metrics, told.alerts, told.clock)
    for _ in range(times):
        violations.note(a_delivery(), BROKEN)
        told.clock.now += every_s
    return metrics


def test_each_is_counted_under_its_rule() -> None:
    metrics = violated(RecordedAlerts(), 3, 0.0)
    assert metrics.violations["work", "trace_id", "empty"] == 3


def test_ten_within_a_minute_are_one_alert() -> None:
    told = RecordedAlerts()
    violated(told, VIOLATIONS_LIMIT + 5, VIOLATIONS_WINDOW_S / VIOLATIONS_LIMIT)
    assert told.causes == ["contract_violations:work"]


def test_nine_and_slow_ones_are_none() -> None:
    few, slow = RecordedAlerts(), RecordedAlerts()
    violated(few, VIOLATIONS_LIMIT - 1, 0.0)
    violated(slow, 3 * VIOLATIONS_LIMIT, VIOLATIONS_WINDOW_S / (VIOLATIONS_LIMIT - 2))
    assert (few.causes, slow.causes) == ([], [])


# -- once for each stored message --------------------------------------------------------------------------------------


class Counting:
    """Violations and their count. A live copy has no place in the stream."""

    def __init__(self) -> None:
        told = RecordedAlerts()
        self._metrics = Metrics()
        self.violations = Violations(self._metrics, told.alerts, told.clock)

    @property
    def count(self) -> int:
        return int(self._metrics.violations["work", "trace_id", "empty"])

    def attempt(self, message: Message, **counted: object) -> None:
        """It is read, and settled with what its attempt record says."""
        self.violations.read(message, BROKEN)
        self.violations.on_settled(replace(message, **counted))  # type: ignore[arg-type]


def test_of_many_attempts_the_first_is_counted() -> None:
    counting = Counting()
    counting.attempt(a_delivery(), attempts=1, revision=7)
    for attempts in (2, 3):
        counting.attempt(replace(a_delivery(deliveries=attempts, attempts=attempts), is_recorded=True))
    assert (counting.count, len(counting.violations.unsettled)) == (1, 0)


def test_a_first_delivery_is_counted_when_it_is_settled_and_not_if_another_router_was_first() -> None:
    counting = Counting()
    counting.violations.read(a_delivery(1), BROKEN)
    assert counting.count == 0
    counting.attempt(a_delivery(2), attempts=2, is_recorded=True)
    assert counting.count == 0


def test_a_redelivery_of_which_nothing_is_recorded_is_counted() -> None:
    """The router that had the first delivery died, and its counters with it."""
    counting = Counting()
    counting.attempt(a_delivery(deliveries=2, attempts=2))
    assert counting.count == 1


def test_a_handler_that_is_asked_again_while_the_broker_is_away_makes_no_more_of_it() -> None:
    counting = Counting()
    for _ in range(5):
        counting.violations.read(a_delivery(), BROKEN)
    counting.attempt(a_delivery())
    assert counting.count == 1


def test_a_live_copy_is_counted_with_its_stored_copy_whether_that_is_read_or_only_acknowledged() -> None:
    counting = Counting()
    for sequence, is_read in ((1, True), (2, False)):
        stored = a_delivery(sequence, data=b"%d" % sequence)
        counting.violations.read(replace(stored, sequence=0), BROKEN)
        if is_read:
            counting.violations.read(stored, BROKEN)
        counting.violations.on_settled(stored)
    assert (counting.count, len(counting.violations.unsettled)) == (2, 0)


def test_what_is_never_settled_here_is_forgotten() -> None:
    counting = Counting()
    for sequence in range(1, MOST_UNSETTLED + 10):
        counting.violations.read(a_delivery(sequence), BROKEN)
    assert (len(counting.violations.unsettled), counting.count) == (MOST_UNSETTLED, 0)
