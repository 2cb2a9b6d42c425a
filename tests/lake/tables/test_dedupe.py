"""Which events count: the lowest sequence of each identity."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from router.lake.tables.event import KEY_SCHEMA, find_rejects

Row = tuple[int, int, int]  # id_high, id_low, content

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), max_size=20)


def table(found: dict[int, Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(KEY_SCHEMA.names, (seq, *row), strict=True)) for seq, row in found.items()],
        schema=KEY_SCHEMA,
    )


@settings(deadline=None)
@given(rows, rows)
def test_as_a_plain_loop_over_the_stream_would_have_it(
    earlier: list[Row], later: list[Row]
) -> None:
    """UL-4."""
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    known: dict[int, Row] = {}
    for seq, row in enumerate(earlier):
        if counts.setdefault(row[:2], (seq, row[2]))[0] == seq:
            known[seq] = row
    fresh = dict(enumerate(later, len(earlier)))
    expected = []
    for seq, row in fresh.items():
        first, content = counts.setdefault(row[:2], (seq, row[2]))
        if first != seq:
            expected.append((seq, first, row[2] != content))
    told = find_rejects(table(fresh), table(known)).to_pylist()
    assert sorted((row["seq"], row["first_seq"], row["is_conflict"]) for row in told) == expected
