"""Offsets, limits and ranges: pure arithmetic on what a stream says of itself."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.errors import Misconfigured
from router.lake.source.offset import (
    DataLoss,
    SequenceRange,
    StreamState,
    limit_batch,
    make_offset,
    refuse_loss,
    resolve_offset,
    resolve_start,
    split,
)


def facts(**changed: Any) -> StreamState:
    return StreamState(
        **{
            "stream": "S",
            "created": "monday",
            "first": 1,
            "last": 100,
            "messages": 100,
            "bytes": 10_000,
            **changed,
        }
    )


@given(
    start=st.integers(1, 10**9),
    length=st.integers(0, 10**7),
    parts=st.integers(1, 64),
    smallest=st.integers(1, 10**6),
)
def test_ranges_side_by_side_are_the_whole_and_none_is_too_small(
    start: int, length: int, parts: int, smallest: int
) -> None:
    """UL-20, UL-32."""
    ranges = split(SequenceRange(start, start + length, "monday"), parts, smallest)

    assert len(ranges) <= parts
    assert sum(map(len, ranges)) == length
    assert all(left.end == right.start for left, right in pairwise(ranges))
    assert all(len(one) >= smallest for one in ranges) or len(ranges) == 1
    assert not ranges or (ranges[0].start, ranges[-1].end) == (start, start + length)
    assert not ranges or max(map(len, ranges)) - min(map(len, ranges)) <= 1


@given(
    start=st.integers(1, 300),
    last=st.integers(0, 200),
    rows=st.none() | st.integers(1, 300),
    size=st.none() | st.integers(1, 10**5),
)
def test_a_micro_batch_moves_on_while_there_is_anything_and_never_beyond_the_head_or_back(
    start: int, last: int, rows: int | None, size: int | None
) -> None:
    """UL-19."""
    end = limit_batch(start, facts(last=last), max_rows=rows, max_bytes=size)

    assert start <= end <= max(start, last + 1)
    assert end > start or start > last


def test_a_limit_in_bytes_counts_messages_of_average_size() -> None:
    """UL-31."""
    assert limit_batch(1, facts(messages=100, bytes=10_000), max_bytes=1_000) == 11
    assert limit_batch(1, facts(messages=100, bytes=10_000), max_bytes=1) == 2  # one at least


def test_a_query_begins_at_a_sequence_at_the_first_message_or_at_the_head() -> None:
    there = facts(first=40, last=100)
    assert [resolve_start(wanted, there) for wanted in (50, 0, None)] == [50, 40, 101]


def test_an_offset_inside_the_stream_is_where_to_go_on() -> None:
    assert resolve_offset(make_offset(facts(), 50), facts(), fails_on_loss=True) == 50
    assert resolve_offset(make_offset(facts(), 101), facts(), fails_on_loss=True) == 101


@pytest.mark.parametrize(
    ("now", "said", "goes_on_at"),
    [
        (facts(first=60), "sequences 50 to 59 are gone", 60),
        (facts(first=101), "sequences 50 to 100 are gone", 101),
        (facts(last=20), "sequences 21 to 49 are gone", 21),
        (facts(created="tuesday", last=200), "made anew at tuesday", 1),
    ],
)
def test_what_was_lost_since_an_offset_is_named_or_by_wish_passed_over(
    now: StreamState, said: str, goes_on_at: int
) -> None:
    """UL-18."""
    offset = make_offset(facts(), 50)
    with pytest.raises(DataLoss, match=said):
        resolve_offset(offset, now, fails_on_loss=True)
    assert resolve_offset(offset, now, fails_on_loss=False) == goes_on_at


def test_a_checkpoint_of_another_stream_is_refused_whatever_loss_is_allowed() -> None:
    with pytest.raises(Misconfigured, match="another checkpoint"):
        resolve_offset(make_offset(facts(stream="OTHER"), 1), facts(), fails_on_loss=False)


def test_messages_deleted_from_the_middle_are_no_loss() -> None:
    """UL-27."""
    refuse_loss(SequenceRange(50, 60, "monday"), facts(), fails_on_loss=True)
