"""Partial sums add up."""

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.contracts.result import MAX_LATENCY_MS
from router.lake.tables.gold import (
    GAMMA,
    GOLD_KEYS,
    HISTOGRAM_TYPE,
    INSTANT,
    MONEY_TYPE,
    SumOverflow,
    find_buckets,
    merge_sums,
    sum_events,
)
from router.lake.tables.late import assign_windows
from router.lake.tables.schemas import list_columns

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
EVENTS = pa.schema(
    [
        *((name, INSTANT) for name in ("time", "timestamp")),
        *(
            (name, pa.string())
            for name in ("tenant_id", "provider_id", "event_type", "status", "model")
        ),
        ("latency_ms", pa.int64()),
        ("cost", MONEY_TYPE),
        *((name, pa.string()) for name in ("adjustment", "budget")),
        *((name, pa.bool_()) for name in ("correlated", "estimated")),
        *((name, pa.int64()) for name in ("input_tokens", "cached_tokens", "output_tokens")),
    ]
)

an_event = st.builds(
    lambda tenant, minutes, latency, nanos, kind: {
        "time": NOON,
        "timestamp": NOON - timedelta(minutes=minutes),
        "tenant_id": tenant,
        "provider_id": "openai",
        "event_type": "chat",
        "status": "success",
        "latency_ms": latency,
        "cost": Decimal(nanos).scaleb(-9),
        **kind,
    },
    st.sampled_from(["acme", "globex"]),
    st.integers(0, 4000),
    st.integers(0, 100_000),
    st.integers(0, 10**12),
    st.sampled_from([
        {}, {}, {"correlated": True, "estimated": True}, {"correlated": False}, {"adjustment": "bill"}, {"adjustment": "budget"},
        {"model": "large"}, {"model": ""}, {"model": "large", "input_tokens": 12, "cached_tokens": 0, "output_tokens": 10**12},
    ]),
)  # fmt: skip
many = st.lists(an_event, min_size=1, max_size=40)
quickly = settings(max_examples=25, deadline=None)


def sums(events: list[dict[str, object]], grain: str, sealed: tuple[date, ...] = ()) -> pa.Table:
    return sum_events(assign_windows(pa.Table.from_pylist(events, schema=EVENTS), sealed, grain))


def same(one: pa.Table, other: pa.Table) -> bool:
    """Rows in the same order, buckets in the same order: Arrow's own `equals` takes equal maps for
    different ones.
    """
    return one.schema == other.schema and one.to_pylist() == other.to_pylist()


@quickly
@given(many)
def test_hours_are_merged_minutes_and_days_are_merged_hours_to_the_last_bucket(
    events: list[dict[str, object]],
) -> None:
    """UL-8."""
    minutes = sums(events, "minute")
    hours = merge_sums(minutes, GOLD_KEYS, "hour")
    assert same(hours, sums(events, "hour"))
    assert same(merge_sums(hours, GOLD_KEYS, "day"), merge_sums(minutes, GOLD_KEYS, "day"))
    assert same(merge_sums(hours, GOLD_KEYS, "day"), sums(events, "day"))


@quickly
@given(many, many)
def test_two_batches_merged_are_one_batch_of_both_in_any_order(
    one: list[dict[str, object]], other: list[dict[str, object]]
) -> None:
    """UL-7, UL-8."""
    both = merge_sums(pa.concat_tables([sums(one, "minute"), sums(other, "minute")]))
    assert same(both, merge_sums(pa.concat_tables([sums(other, "minute"), sums(one, "minute")])))
    assert same(both, sums([*other, *one], "minute"))


@quickly
@given(many)
def test_the_corrections_of_sealed_days_merge_as_any_sum_does(
    events: list[dict[str, object]],
) -> None:
    sealed = (NOON.date() - timedelta(days=1),)
    assert same(
        merge_sums(sums(events, "minute", sealed), GOLD_KEYS, "day"), sums(events, "day", sealed)
    )


def test_every_group_of_thousands_keeps_its_own_histogram() -> None:
    """Arrow's groups come in the order of the rows while they are few, and not beyond."""
    event = {
        "time": NOON,
        "timestamp": NOON,
        "provider_id": "b",
        "event_type": "c",
        "status": "d",
        "cost": Decimal(1),
    }
    made = sums(
        [
            {**event, "tenant_id": f"t{latency % 3000:04}", "latency_ms": latency}
            for latency in range(8000)
        ],
        "minute",
    )
    bucket = find_buckets(pa.chunked_array([range(8000)])).to_pylist()
    for row in [*made.to_pylist(), *merge_sums(made, GOLD_KEYS, "day").to_pylist()]:
        assert [one for one, n in row["histogram"] for _ in range(n)] == bucket[
            int(row["tenant_id"][1:]) :: 3000
        ]


@quickly
@given(st.integers(1, 10**9))
def test_a_latency_is_within_one_percent_of_its_buckets_middle(latency: int) -> None:
    """UL-8."""
    (bucket,) = find_buckets(pa.chunked_array([[latency]])).to_pylist()
    assert abs(2 * GAMMA**bucket / (1 + GAMMA) - latency) <= latency * 0.010001


def test_no_latency_at_all_has_a_bucket_of_its_own() -> None:
    assert find_buckets(pa.chunked_array([[0, 1]])).to_pylist() == [-1, 0]


def test_the_columns_are_those_that_the_schema_tells() -> None:
    event = {
        "time": NOON,
        "timestamp": NOON,
        "tenant_id": "a",
        "provider_id": "b",
        "event_type": "c",
        "status": "d",
        "latency_ms": 0,
    }
    made = sums([{**event, "cost": Decimal(1)}], "minute").schema
    # the job adds the revision
    assert {*made.names, "revision"} == {name for name, _ in list_columns("gold_day")}
    assert (made.field("histogram").type, made.field("cost").type) == (HISTOGRAM_TYPE, MONEY_TYPE)


@pytest.mark.parametrize(("figure", "value"), [("cost", Decimal("9.99e28")), ("latency_ms", 2**62)])
def test_a_sum_that_no_column_can_hold_is_an_error_that_names_the_group(
    figure: str, value: object
) -> None:
    event = {
        "time": NOON,
        "timestamp": NOON,
        "provider_id": "b",
        "event_type": "c",
        "status": "d",
        "latency_ms": 1,
        "cost": Decimal(1),
    }
    dear, cheap = {**event, "tenant_id": "acme", figure: value}, {**event, "tenant_id": "zed"}
    partly = pa.concat_tables([sums([dear, cheap], "minute") for _ in range(3)])
    for work in (lambda: sums([dear, dear, cheap, dear], "minute"), lambda: merge_sums(partly)):
        with pytest.raises(SumOverflow, match=rf"{figure.removesuffix('_ms')}.* of .*acme/b/c/d"):
            work()


def test_every_latency_is_in_the_bucket_that_whole_numbers_give() -> None:
    """At both sides of every boundary, where a logarithm would be the first to be wrong."""
    edges = [51**number // 50**number for number in range(1100)]
    latencies = sorted(
        {latency for edge in edges for latency in (edge, edge + 1) if latency <= MAX_LATENCY_MS}
    )
    expected = [bisect_left(edges, latency) for latency in latencies]
    assert find_buckets(pa.chunked_array([latencies])).to_pylist() == expected


AN_EVENT = {
    "time": NOON,
    "timestamp": NOON,
    "tenant_id": "a",
    "provider_id": "b",
    "event_type": "c",
    "status": "success",
    "latency_ms": 8,
}


def figures_of(*events: dict[str, object]) -> dict[str, object]:
    """Of the one group that they are."""
    (row,) = sums(
        [{**AN_EVENT, "cost": Decimal(1), **event} for event in events], "day"
    ).to_pylist()
    return {
        name: value
        for name, value in row.items()
        if value and name not in {*GOLD_KEYS, "histogram"}
    }


@pytest.mark.parametrize("kind", ["outcome", "held", "bill"])
def test_an_adjustment_moves_the_cost_and_is_no_request(kind: str) -> None:
    """UL-39."""
    adjusted = figures_of(
        {"cost": Decimal("0.5")},
        {"cost": Decimal("-0.2"), "adjustment": kind, "latency_ms": 0, "input_tokens": 9},
    )
    assert adjusted == {
        "count": 1, "cost": Decimal("0.3"), "latency_sum": 8, "latency_min": 8, "latency_max": 8,
        "adjustment_count": 1, "adjustment_cost": Decimal("-0.2"),
    }  # fmt: skip


def test_a_marked_event_is_counted_apart_and_costs_nothing() -> None:
    """UL-40."""
    apart = figures_of(
        {"correlated": False, "cost": Decimal(10**9), "input_tokens": 5, "estimated": True}
    )
    assert apart == {"uncorrelated_count": 1, "uncorrelated_cost": Decimal(10**9)}


def test_tokens_and_what_was_estimated_are_added_up() -> None:
    told = {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 7}
    added = figures_of(
        told, {**told, "estimated": True, "cost": Decimal("0.25")}, {"estimated": False}
    )
    assert {name: added[name] for name in ("input_tokens", "cached_tokens", "output_tokens", "estimated_cost")} == {
        "input_tokens": 200, "cached_tokens": 80, "output_tokens": 14, "estimated_cost": Decimal("0.25"),
    }  # fmt: skip


def test_an_adjustment_of_one_budget_is_in_no_sum() -> None:
    """UL-39."""
    assert not len(sums([{**AN_EVENT, "cost": Decimal(-1), "adjustment": "budget"}], "day"))


@pytest.mark.parametrize("kind", [{"adjustment": "bill"}, {"correlated": False}])
def test_a_group_without_outcomes_has_no_latency_and_merges_as_any(kind: dict[str, object]) -> None:
    events = [
        {**AN_EVENT, "cost": Decimal(-1), **kind},
        {**AN_EVENT, "tenant_id": "b", "cost": Decimal(1)},
    ]
    partly = sums(events, "minute")
    bare, other = merge_sums(
        pa.concat_tables([partly, sums(events[:1], "minute")]), GOLD_KEYS, "day"
    ).to_pylist()
    assert (
        bare["count"],
        bare["latency_sum"],
        bare["latency_min"],
        bare["latency_max"],
        bare["histogram"],
    ) == (0, 0, None, None, [])
    assert (other["count"], len(other["histogram"])) == (1, 1)


def test_sums_of_files_from_before_a_column_stay_what_they_are() -> None:
    """Null is no zero: such a file says nothing of the column."""
    made = sums([{**AN_EVENT, "cost": Decimal(1)}], "day")
    place = made.schema.get_field_index("adjustment_cost")
    old = made.set_column(place, "adjustment_cost", pa.nulls(len(made), MONEY_TYPE))
    assert merge_sums(old)["adjustment_cost"].to_pylist() == [None]
    assert merge_sums(pa.concat_tables([old, made]))["adjustment_cost"].to_pylist() == [Decimal(0)]
