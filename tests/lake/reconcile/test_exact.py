"""Sums as Python would have them, however large the numbers are."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from router.lake.reconcile.sums import ExactSums, find_buckets, format_money, sum_exactly

MONEY = pa.decimal128(38, 9)
NANOS = st.integers(-(10**38) + 1, 10**38 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), NANOS, LONGS), max_size=6), max_size=4))
def test_sums_by_group_over_several_tables_are_pythons(
    tables: list[list[tuple[str, int, int]]],
) -> None:
    sums = ExactSums(("group",), ("cost", "latency"))
    expected: dict[tuple[str], tuple[int, int]] = {}
    for rows in tables:
        sums.add(a_table(rows))
        for group, nanos, latency in rows:
            known = expected.get((group,), (0, 0))
            expected[(group,)] = (known[0] + nanos, known[1] + latency)
    assert sums.sum_groups() == expected


def test_sums_of_a_slice_are_those_of_the_slice() -> None:
    sums = ExactSums(("group",), ("cost", "latency"))
    sums.add(a_table([("a", nanos, nanos) for nanos in range(10)]).slice(3, 4))
    assert sums.sum_groups() == {("a",): (18, 18)}


@settings(max_examples=50, deadline=None)
@given(st.lists(NANOS))
def test_a_total_is_pythons(costs: list[int]) -> None:
    assert (
        sum_exactly(pa.chunked_array([[money(one) for one in costs], [money(1)]], MONEY))
        == sum(costs) + 1
    )
    assert sum_exactly(pa.chunked_array([], MONEY)) == 0


def test_money_is_written_with_nine_places() -> None:
    assert [format_money(nanos) for nanos in (0, 1, -1, 10**9, 3 * 10**38 + 5)] == [
        "0.000000000", "0.000000001", "-0.000000001", "1.000000000", "300000000000000000000000000000.000000005",
    ]  # fmt: skip


@settings(max_examples=50)
@given(st.integers(1, 2**63 - 1))
def test_a_bucket_is_the_least_power_that_reaches_the_latency(latency: int) -> None:
    (bucket,) = find_buckets(pa.chunked_array([[latency]])).to_pylist()
    assert 51**bucket >= latency * 50**bucket
    assert bucket == 0 or 51 ** (bucket - 1) < latency * 50 ** (bucket - 1)


def test_no_latency_is_in_the_bucket_below_all() -> None:
    assert find_buckets(pa.chunked_array([[0, 1, 2]])).to_pylist() == [-1, 0, 36]


def a_table(rows: list[tuple[str, int, int]]) -> pa.Table:
    groups, costs, latencies = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "group": pa.array(groups, pa.string()),
            "cost": pa.array([money(one) for one in costs], MONEY),
            "latency": pa.array(latencies, pa.int64()),
        }
    )


def money(nanos: int) -> Decimal:
    return Decimal((int(nanos < 0), tuple(map(int, str(abs(nanos)))), -9))
