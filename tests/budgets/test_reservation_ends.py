"""Which usage event ends the reservation in its header: each reservation ends once, and no id that
a payer repeats keeps one alive.
"""

from router.budgets.booked_usage import EventMemory, is_end_of_reservation
from router.contracts.usage import UsageCost


def list_ends(*costs: UsageCost) -> list[bool]:
    memory = EventMemory()
    return [is_end_of_reservation(cost, memory, sequence) for sequence, cost in enumerate(costs, 1)]


def an_event(
    reference: str | None = None, *, tenant_id: str = "acme", adjustment: str | None = None
) -> UsageCost:
    return UsageCost(tenant_id, "openai", reference, "usage:1", 5, adjustment=adjustment)


def test_two_outcomes_of_one_reference_end_it_once() -> None:
    assert list_ends(an_event("a-1"), an_event("a-1"), an_event("a-1", tenant_id="beta")) == [
        True,
        False,
        True,
    ]


def test_each_event_with_an_identity_of_its_own_ends_its_own() -> None:
    """As invocations under one request id, which the payer chooses: each has reserved for itself."""
    assert list_ends(an_event(), an_event()) == [True, True]


def test_an_adjustment_ends_none_and_takes_no_reference_away() -> None:
    assert list_ends(
        an_event(adjustment="bill"), an_event("a-1", adjustment="outcome"), an_event("a-1")
    ) == [False, False, True]
