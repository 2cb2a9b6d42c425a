"""Events and lines, however the bytes are cut, and never more than the bound of them kept."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.providers.event_lines import LineReader, ServerEvent, ServerEventReader, TooLong

TEXT = (
    b": keep-alive\r\n\r\nevent: ping\ndata: {}\n\ndata: one\r\ndata:two\nid: 7\nretry: 5\n\n"
    b"event: none\n\ndata\n\ndata: caf\xc3\xa9\n\ndata: cut"
)
EVENTS = [
    ServerEvent("ping", "{}"),
    ServerEvent("", "one\ntwo"),
    ServerEvent("", ""),
    ServerEvent("", "café"),
]


@given(st.lists(st.integers(0, len(TEXT)), max_size=20))
def test_events_are_the_same_however_they_come(places: list[int]) -> None:
    reader, cuts = ServerEventReader(), [0, *sorted(places), len(TEXT)]
    chunks = [TEXT[a:b] for a, b in pairwise(cuts)]
    assert [event for chunk in chunks for event in reader.feed(chunk)] == EVENTS


@pytest.mark.parametrize(
    "chunks",
    [
        [b"x" * 11],
        [b"x" * 6, b"x" * 6],
        [b"x" * 11 + b"\n"],
        [b"ok\n" + b"x" * 11],
    ],
)
def test_a_line_above_the_bound_is_not_kept(chunks: list[bytes]) -> None:
    reader = LineReader(10)
    with pytest.raises(TooLong):
        [reader.feed(chunk) for chunk in chunks]


def test_an_event_of_many_lines_is_bounded_as_one_line_is() -> None:
    reader = ServerEventReader(20)
    with pytest.raises(TooLong):
        list(reader.feed(b"data: 123\n" * 3))


def test_the_last_line_may_end_with_the_bytes() -> None:
    reader = LineReader()
    assert (reader.feed(b"a\nb"), reader.end(), LineReader().end()) == ([b"a"], [b"b"], [])
