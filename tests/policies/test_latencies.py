"""The distribution of latencies: a bucket holds what lies between its edges, and a percentile is at
most 5 % off.
"""

import pytest

from router.policies.model.measurements.values import (
    add_up,
    find_bucket,
    find_edge,
    find_percentile,
)

LATENCIES = [0, 0.5, 1, 7, 99, 250, 1234.5, 60_000, 3_600_000]


@pytest.mark.parametrize("latency_ms", LATENCIES)
def test_a_latency_lies_between_the_edges_of_its_bucket(latency_ms: float) -> None:
    bucket = find_bucket(latency_ms)
    assert latency_ms < find_edge(bucket)
    assert bucket == 0 or latency_ms >= find_edge(bucket - 1)


def test_the_first_bucket_begins_at_nothing_and_the_last_holds_an_hour() -> None:
    assert find_edge(-1) == 0
    assert (find_bucket(0), find_bucket(3_600_000)) == (0, 174)


@pytest.mark.parametrize("latency_ms", LATENCIES)
def test_a_percentile_is_off_by_five_percent_at_most(latency_ms: float) -> None:
    found = find_percentile({find_bucket(latency_ms): 3}, 0.95)
    assert found is not None
    assert abs(found - latency_ms) <= 0.05 * (latency_ms + 1)


def test_a_percentile_is_the_nearest_rank() -> None:
    counts = {find_bucket(10): 95, find_bucket(1000): 5}
    assert find_percentile(counts, 0.95) == pytest.approx(10, abs=0.6)
    assert find_percentile(counts, 0.951) == pytest.approx(1000, rel=0.05)
    assert find_percentile({}, 0.5) is None


def test_the_counts_of_several_instances_are_added() -> None:
    assert add_up({1: 2, 3: 4}, {3: 1}, {}) == {1: 2, 3: 5}
