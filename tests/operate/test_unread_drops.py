"""What a stream dropped before its durable was given it, from what a server says of both."""

from typing import Any

from router.operate.topology.monitor import UnreadDrops


def look(
    drops: UnreadDrops,
    *,
    first: int,
    place: int,
    given: int,
    made: str = "monday",
    leader: str = "a",
) -> int:
    cluster = {"leader": leader}
    consumer: dict[str, Any] = {
        "created": made,
        "delivered": {"stream_seq": place, "consumer_seq": given},
        "cluster": cluster,
    }
    return drops.look("c", {"state": {"first_seq": first}}, consumer)


def test_messages_that_went_after_they_were_given_are_no_loss() -> None:
    drops = UnreadDrops()
    assert [
        look(drops, first=1, place=4, given=4),
        look(drops, first=5, place=4, given=4),
        look(drops, first=9, place=30, given=30),
    ] == [0] * 3


def test_what_stands_behind_the_durables_place_is_counted_once() -> None:
    drops = UnreadDrops()
    look(drops, first=1, place=4, given=4)
    assert look(drops, first=26, place=4, given=4) == 21
    assert look(drops, first=26, place=4, given=4) == 0
    assert look(drops, first=31, place=4, given=4) == 5
    assert look(drops, first=31, place=33, given=7) == 0


def test_a_gap_that_opened_and_was_passed_between_two_looks_is_seen() -> None:
    drops = UnreadDrops()
    look(drops, first=1, place=4, given=4)
    assert look(drops, first=30, place=35, given=10) == 25


def test_redeliveries_make_no_loss() -> None:
    drops = UnreadDrops()
    look(drops, first=1, place=4, given=4)
    assert look(drops, first=1, place=4, given=9) == 0


def test_the_first_look_counts_what_its_durable_has_not_passed_and_another_durable_begins_anew() -> (
    None
):
    drops = UnreadDrops()
    assert look(drops, first=26, place=4, given=4) == 21
    assert look(drops, first=26, place=25, given=0, made="tuesday") == 0


def test_a_new_leader_that_does_not_know_of_the_last_redeliveries_makes_no_loss() -> None:
    """It counts fewer deliveries than the one before, at the same place."""
    drops = UnreadDrops()
    look(drops, first=1, place=40, given=42)
    assert look(drops, first=1, place=40, given=40, leader="b") == 0
    assert look(drops, first=51, place=40, given=40, leader="b") == 10


def test_a_place_that_rises_without_deliveries_makes_no_loss_while_the_stream_has_its_messages() -> (
    None
):
    """A leader heard acks of deliveries that only the one before had made: seen in a cluster under
    faults, and told as 78 lost requests.
    """
    drops = UnreadDrops()
    look(drops, first=1, place=40, given=40)
    assert look(drops, first=1, place=118, given=40) == 0
    assert look(drops, first=131, place=118, given=40) == 12


def test_what_was_dropped_while_a_leader_was_elected_is_counted() -> None:
    drops = UnreadDrops()
    look(drops, first=1, place=40, given=42)
    assert look(drops, first=51, place=40, given=40, leader="b") == 10
    assert look(drops, first=51, place=50, given=40, leader="c") == 0
