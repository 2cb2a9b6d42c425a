"""What becomes of the document of a budget when usage events are settled: each is in it once,
whichever stream holds it.
"""

from router.budgets.model import book_costs, open_next_window
from router.budgets.model.spent_record import BookedCost, SpentLease, SpentRecord

EMPTY = SpentRecord(is_counted=True, timeline="first")


def a_cost(sequence: int, stored_ns: int | None = None, **fields: object) -> BookedCost:
    """An event that costs one nano, stored at ten times its sequence."""
    return BookedCost(sequence, stored_ns if stored_ns is not None else 10 * sequence, 1, **fields)  # type: ignore[arg-type]


def test_events_at_or_below_the_sequence_are_in_it() -> None:
    record = book_costs(EMPTY, "first", [a_cost(1), a_cost(2)])
    again = book_costs(record, "first", [a_cost(1), a_cost(2, 99), a_cost(3, 5)])
    assert (again.settled, again.events, again.through, again.stored_ns, again.is_mixed) == (
        3,
        3,
        3,
        20,
        False,
    )


def test_another_stream_counts_from_its_own_first_sequence_and_what_is_settled_stays() -> None:
    record = book_costs(EMPTY, "first", [a_cost(1_000_000, 50)])
    then = book_costs(record, "second", [a_cost(1, 60), a_cost(2, 70)])
    assert (then.settled, then.timeline, then.through, then.is_mixed) == (3, "second", 2, True)
    assert book_costs(then, "second", [a_cost(2, 70)]) is then


def test_a_document_with_events_of_two_streams_stays_one() -> None:
    record = book_costs(book_costs(EMPTY, "first", [a_cost(5, 50)]), "second", [a_cost(1, 60)])
    assert book_costs(record, "second", [a_cost(2, 70)]).is_mixed


def test_a_copy_of_the_stream_adds_only_what_was_stored_later() -> None:
    record = book_costs(EMPTY, "first", [a_cost(1), a_cost(2)])
    assert book_costs(record, "copy", [a_cost(1), a_cost(2)]) is record
    assert book_costs(record, "copy", [a_cost(2), a_cost(3)]).settled == 3


def test_a_document_without_events_is_of_one_stream_alone() -> None:
    then = book_costs(EMPTY, "second", [a_cost(1)])
    assert (then.timeline, then.is_mixed) == ("second", False)


def test_the_next_window_counts_from_no_sequence_and_keeps_what_is_held() -> None:
    lease = SpentLease(5, 1_000)
    record = book_costs(
        SpentRecord(is_counted=True, timeline="first", leases={"a.1": lease}), "second", [a_cost(7)]
    )
    following = open_next_window(record, 0)
    assert following == SpentRecord(is_counted=True, timeline="second", leases={"a.1": lease})
    assert book_costs(following, "second", [a_cost(6, lease_id="a.1", reserved=2)]).held == 3
