"""Header blocks as maps: the quick way and the one by one say the same."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import parse_head
from router.lake.source import rows

MAPS = pa.map_(pa.string(), pa.string())
names = st.sampled_from(["Nats-Msg-Id", "trace_id", "a+b(", "Ünder", "a b"])
values = (
    st.sampled_from(["", " a", "a ", "a  b", "a: b", "ä"])
    | st.text(st.characters(blacklist_categories=["Cs"]), max_size=6)
    | st.from_regex(r"\A[!-~]{1,8}\Z")
)


def maps(*heads: bytes | None) -> list[dict[str, str] | None]:
    read = rows.parse_headers(list(heads), len(heads), MAPS)
    return [None if row is None else dict(row) for row in read.to_pylist()]


@given(st.lists(st.dictionaries(names, values, min_size=1, max_size=3), min_size=1, max_size=4))
def test_any_headers_are_read_as_a_single_message_is(blocks: list[dict[str, str]]) -> None:
    heads = [head_of(block) for block in blocks]
    assert maps(*heads) == [parse_head(head) for head in heads]


@given(
    st.lists(
        st.binary(max_size=40).map(lambda rest: b"NATS/1.0\r\nid: a\r\n" + rest),
        min_size=1,
        max_size=3,
    )
)
def test_a_malformed_block_stops_no_reader(heads: list[bytes]) -> None:
    assert maps(*heads) == [parse_head(head) for head in heads]


def test_alike_blocks_are_read_without_looking_at_each() -> None:
    heads = [head_of({"Nats-Msg-Id": f"usage:{number}", "trace_id": "t"}) for number in range(3)]
    assert rows._parse_uniform(list(heads), MAPS) is not None
    assert maps(*heads) == [
        {"Nats-Msg-Id": f"usage:{number}", "trace_id": "t"} for number in range(3)
    ]


def test_a_message_without_headers_has_none_rather_than_an_empty_map() -> None:
    assert maps(None, head_of({"a": "1"}), None) == [None, {"a": "1"}, None]
    assert maps(None, None) == [None, None]


def test_of_equal_names_the_first_counts() -> None:
    assert maps(b"NATS/1.0\r\na: 1\r\na: 2\r\n\r\n") == [{"a": "1"}]
