"""Many expositions as one: what is a sum, what is the most, what stays of the dead."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from router.process.observability import Counter, Gauge, Histogram, LabelledCounter, Metrics
from router.process.observability.exposition import Snapshot
from router.process.observability.instruments import Aggregation
from router.serve.fleet.merge_snapshots import drop_gauges, merge_snapshots


def a_gauge(value: float, aggregation: Aggregation = Aggregation.MAX) -> Snapshot:
    gauge = Gauge("g", "g", aggregation=aggregation)
    gauge.set(value)
    return (gauge.family(),)


def a_tally(**counts: int) -> Snapshot:
    tally = LabelledCounter("t_total", "t", "of")
    tally.update({(name,): count for name, count in counts.items()})
    return (tally.family(),)


def a_spread(*values: float, edges: tuple[float, ...] = (1.0, 10.0)) -> Snapshot:
    spread = Histogram("s_seconds", "s", edges)
    for value in values:
        spread.observe(value)
    return (spread.family(),)


def test_counters_add_up_series_by_series() -> None:
    (family,) = merge_snapshots((a_tally(a=1, b=2), a_tally(b=3, c=4)))
    assert family.series == {("a",): 1, ("b",): 5, ("c",): 4}


@settings(max_examples=30)
@given(st.lists(st.floats(0, 20), max_size=9), st.lists(st.floats(0, 20), max_size=9))
def test_two_histograms_are_the_histogram_of_all_their_values(
    one: list[float], other: list[float]
) -> None:
    (family,) = merge_snapshots((a_spread(*one), a_spread(*other)))
    (whole,) = a_spread(*one, *other)
    assert family.buckets[()].counts == whole.buckets[()].counts
    assert math.isclose(family.buckets[()].total, whole.buckets[()].total, abs_tol=1e-9)


def test_a_gauge_adds_up_as_it_was_declared() -> None:
    for aggregation, expected in ((Aggregation.MAX, 5), (Aggregation.MIN, 2), (Aggregation.SUM, 7)):
        (family,) = merge_snapshots((a_gauge(2, aggregation), a_gauge(5, aggregation)))
        assert family.series == {(): expected}


def test_a_gauge_that_one_process_cannot_read_is_what_the_others_say() -> None:
    for snapshots in ((a_gauge(math.nan), a_gauge(3)), (a_gauge(3), a_gauge(math.nan))):
        (family,) = merge_snapshots(snapshots)
        assert family.series == {(): 3}


def test_the_dead_count_and_do_not_stand_anywhere_any_more() -> None:
    snapshot = (*a_tally(a=1), *a_spread(0.5), *a_gauge(9))
    assert [family.kind for family in drop_gauges(snapshot)] == ["counter", "histogram"]
    assert {
        family.name: family.series
        for family in merge_snapshots((drop_gauges(snapshot), a_gauge(2)))
    }["g"] == {(): 2}


def test_a_family_of_another_build_is_left_out_instead_of_being_added_up_wrongly() -> None:
    other = LabelledCounter("t_total", "t", "of", "by")
    other["a", "b"] += 1
    assert merge_snapshots((a_tally(a=1), (other.family(),))) == a_tally(a=1)
    assert merge_snapshots((a_spread(0.5), a_spread(0.5, edges=(2.0,)))) == a_spread(0.5)
    count = Counter("g", "g")
    assert merge_snapshots((a_gauge(1), (count.family(),))) == a_gauge(1)


def test_every_gauge_of_the_catalog_that_is_a_share_of_its_own_is_a_sum() -> None:
    """What each process has for itself; all other gauges are of something that all of them see."""
    aggregation = {
        family.name: family.aggregation
        for family in Metrics().registry.snapshot()
        if family.kind == "gauge"
    }
    sums = {name for name, how in aggregation.items() if how is Aggregation.SUM}
    own = {
        "router_delivery_in_flight",
        "router_storage_waiting",
        "router_bucket_waiting",
        "router_asyncio_tasks",
        "router_gateway_streams",
        "router_outbox_taken_back",
    }
    assert sums == {*own, "router_partition_routers"}
    lowest = {name for name, how in aggregation.items() if how is Aggregation.MIN}
    assert lowest == {"router_nats_connected", "router_ready", "router_partition_attended"}
