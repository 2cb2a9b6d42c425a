"""Violations of the header contract are counted once for each stored message, whatever is retried
or redelivered.
"""

from msgspec.structs import replace

from router.core.message import Message
from router.operate.violations.events import ViolationEvents
from router.operate.violations.violations import MOST_UNSETTLED, Violations
from router.operate.violations.windows import BrokenContract
from router.process.observability import Metrics
from tests.support.delivery import a_delivery

BROKEN = (("trace_id", "empty"),)


def a_broken_contract(**fields: object) -> BrokenContract:
    """Tenant beta's."""
    known: dict[str, object] = {
        "tenant_id": "beta",
        "trace_id": None,
        "message_id": "m-1",
        "inbox_prefix": None,
        **fields,
    }
    return BrokenContract(
        **{"subscription": "decide", "subject": "work", "violations": BROKEN, **known}
    )  # type: ignore[arg-type]


class Counting:
    """Violations and their count. A passing copy has no place in the stream."""

    def __init__(self, *tenants: str) -> None:
        self.metrics = Metrics(tenants)
        self.events = ViolationEvents(self.metrics, "node-1", 10)
        self.violations = Violations(self.metrics, self.events)

    @property
    def count(self) -> int:
        return int(self.metrics.violations["work", "trace_id", "empty", "other"])

    def read(self, message: Message) -> None:
        self.violations.read(message, a_broken_contract())

    def attempt(self, message: Message, **counted: object) -> None:
        """It is read, and settled with what its attempt record says."""
        self.read(message)
        self.violations.on_settled(replace(message, **counted))  # type: ignore[arg-type]


def test_each_is_counted_under_its_rule_and_a_listed_tenant_under_its_name() -> None:
    counting = Counting("acme")
    several = (("trace_id", "empty"), ("Nats-Msg-Id", "missing"))
    for tenant in ("acme", "beta", None):
        counting.violations.note(a_broken_contract(tenant_id=tenant, violations=several))
    counts = {
        labels: count
        for labels, count in counting.metrics.violations.items()
        if labels[1] == "trace_id"
    }
    assert counts == {
        ("work", "trace_id", "empty", "acme"): 1,
        ("work", "trace_id", "empty", "other"): 2,
    }
    assert counting.metrics.violating_messages == {("work", "acme"): 1, ("work", "other"): 2}


def test_of_many_attempts_the_first_is_counted() -> None:
    counting = Counting()
    counting.attempt(a_delivery(), attempts=1, revision=7)
    for attempts in (2, 3):
        counting.attempt(
            replace(a_delivery(deliveries=attempts, attempts=attempts), is_recorded=True)
        )
    assert (counting.count, len(counting.violations.unsettled)) == (1, 0)


def test_a_first_delivery_is_counted_when_it_is_settled_and_not_if_another_router_was_first() -> (
    None
):
    counting = Counting()
    counting.read(a_delivery(1))
    assert counting.count == 0
    counting.attempt(a_delivery(2), attempts=2, is_recorded=True)
    assert counting.count == 0


def test_a_redelivery_of_which_nothing_is_recorded_is_counted() -> None:
    """The router that had the first delivery died, and its counters with it."""
    counting = Counting()
    counting.attempt(a_delivery(deliveries=2, attempts=2))
    assert counting.count == 1


def test_a_handler_that_is_called_again_while_the_broker_is_unavailable_counts_once() -> None:
    for deliveries in (1, 2):
        counting = Counting()
        for _ in range(5):
            counting.read(a_delivery(deliveries=deliveries))
        counting.attempt(a_delivery(deliveries=deliveries))
        assert (counting.count, len(counting.violations.unsettled)) == (1, 0)


def test_a_live_copy_is_counted_with_its_stored_copy_whether_that_is_read_or_only_acknowledged() -> (
    None
):
    counting = Counting()
    for sequence, is_read in ((1, True), (2, False)):
        stored = a_delivery(sequence, data=b"%d" % sequence)
        counting.read(replace(stored, sequence=0))
        if is_read:
            counting.read(stored)
        counting.violations.on_settled(stored)
    assert (counting.count, len(counting.violations.unsettled)) == (2, 0)


def test_a_live_copy_whose_stored_copy_another_instance_settles_is_counted_here_after_a_while() -> (
    None
):
    counting = Counting()
    counting.read(replace(a_delivery(), sequence=0))
    counting.read(a_delivery(2))
    counting.violations.count_passing_copies()
    assert counting.count == 0
    counting.violations.count_passing_copies()
    assert (counting.count, len(counting.violations.unsettled)) == (1, 1)


def test_what_is_never_settled_here_is_forgotten() -> None:
    counting = Counting()
    for sequence in range(1, MOST_UNSETTLED + 10):
        counting.read(a_delivery(sequence))
    assert (len(counting.violations.unsettled), counting.count) == (MOST_UNSETTLED, 0)
