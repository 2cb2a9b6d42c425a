"""Reply subjects of a batch, read together."""

from router.lake.source.rows import (
    DeliveryPosition,
    DeliveryPositions,
    parse_position,
    parse_positions,
)


def reply(
    sequence: int,
    delivery: int,
    *,
    time: int = 1_700_000_000_123_456_789,
    pending: int = 0,
    domain: bool = False,
) -> bytes:
    front, back = ("$JS.ACK.hub.a1b2c3", ".x7") if domain else ("$JS.ACK", "")
    return f"{front}.EVENTS.Qw3rTy.1.{sequence}.{delivery}.{time}.{pending}{back}".encode()


def places(*pairs: tuple[int, int]) -> DeliveryPositions:
    return parse_positions([reply(sequence, delivery) for sequence, delivery in pairs])


def test_a_batch_is_read_as_its_messages_are_one_by_one() -> None:
    for domain in (False, True):
        read = parse_positions([reply(7, 1, domain=domain), reply(9, 2, time=5, domain=domain)])
        assert read.sequences.to_pylist() == [7, 9]
        assert read.deliveries.to_pylist() == [1, 2]
        assert read.times.to_pylist() == [1_700_000_000_123_456_789, 5]
        assert parse_position(reply(9, 2, pending=41, domain=domain)) == DeliveryPosition(9, 41)


def test_deliveries_are_whole_up_to_the_first_that_is_missing() -> None:
    assert places((7, 1), (8, 2), (20, 3)).count_contiguous(1) == 3
    assert places((7, 1), (8, 2), (20, 4), (21, 5)).count_contiguous(1) == 2
    assert places((7, 2), (8, 3)).count_contiguous(1) == 0


def test_a_gap_is_known_by_its_first_sequence() -> None:
    assert places((7, 1), (8, 2)).find_gap(6) is None
    assert places((7, 1), (8, 2)).find_gap(4) == 5
    assert places((7, 1), (8, 2), (11, 3), (20, 4)).find_gap(6) == 9


def test_what_lies_beyond_the_range_is_left_out() -> None:
    assert places((7, 1), (8, 2), (11, 3)).take_below(9).sequences.to_pylist() == [7, 8]
    assert places((7, 1)).take_below(5).sequences.to_pylist() == []
