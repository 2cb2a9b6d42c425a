"""What a load counts: percentiles beside exact ones, and sums that do not depend on who counted."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.decide.commands.load.loops import LoopPlan, read_code, read_number, read_warnings
from router.decide.commands.load.processes import share_plan
from router.decide.commands.load.tally import (
    MAX_CODES,
    MAX_US,
    RESOLUTION,
    STEPS,
    Latencies,
    LoadTally,
    add_up,
    compute_figures,
    compute_ratios,
    find_bucket,
    find_middle,
)

SHARES = (0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)
times = st.lists(st.integers(0, MAX_US), min_size=1, max_size=300)


def a_count_of(numbers: list[int]) -> Latencies:
    made = Latencies()
    for us in numbers:
        made.add(us)
    return made


def exact(numbers: list[int], share: float) -> int:
    """Of all the numbers, in order, the one that this share of them does not exceed."""
    return sorted(numbers)[math.ceil(share * len(numbers)) - 1]


@given(times)
def test_a_percentile_is_the_exact_one_within_half_of_a_bucket(numbers: list[int]) -> None:
    counted = a_count_of(numbers)
    for share in SHARES:
        found = counted.find_percentile(share)
        assert found == pytest.approx(exact(numbers, share), rel=RESOLUTION / 2)


def test_percentiles_of_latencies_as_they_are_and_of_a_tail() -> None:
    draw = random.Random(7)
    numbers = [int(draw.lognormvariate(8, 0.7)) for _ in range(20_000)]
    numbers += [draw.randrange(1_000_000, 5_000_000) for _ in range(100)]
    counted = a_count_of(numbers)
    for share in SHARES:
        assert counted.find_percentile(share) == pytest.approx(exact(numbers, share), rel=0.008)
    assert counted.list_figures()["max"] == pytest.approx(max(numbers) / 1000, abs=0.001)


@given(st.integers(0, MAX_US - 1))
def test_buckets_follow_each_other_and_hold_their_middle(us: int) -> None:
    bucket = find_bucket(us)
    assert find_bucket(us + 1) - bucket in (0, 1)
    assert find_bucket(int(find_middle(bucket))) == bucket
    assert us >= 2 * STEPS or find_middle(bucket) == us


def test_what_is_longer_than_the_last_bucket_or_before_the_first_is_counted() -> None:
    counted = a_count_of([-5, MAX_US * 3])
    assert counted.find_percentile(0.5) == 0
    assert counted.longest_us == MAX_US * 3
    assert sum(counted.counts.values()) == 2


def test_without_a_latency_there_is_no_percentile() -> None:
    assert Latencies().list_figures() == {"p50": None, "p99": None, "p999": None, "max": None}


@given(times, times)
def test_counts_of_two_processes_are_those_of_one(some: list[int], others: list[int]) -> None:
    merged = a_count_of(some)
    merged.merge(a_count_of(others))
    assert merged == a_count_of(some + others)


def test_tallies_add_up_over_processes_and_time() -> None:
    first = LoadTally(sent=5, answered=4, errors={"timeout": 1}, in_time=4, seconds=0.5, cpu_s=0.2)
    second = LoadTally(
        sent=3, answered=1, errors={"overloaded": 2}, in_time=1, seconds=0.5, cpu_s=0.3
    )
    other = LoadTally(sent=2, answered=2, warnings={"unknown_field": 2}, in_time=2, seconds=1.0)
    figures = compute_figures(add_up([[first, second], [other]]), 2)
    assert (figures["sent"], figures["answered"]) == (10, 7)
    assert figures["errors"] == {"overloaded": 2, "timeout": 1}
    assert figures["warnings"] == {"unknown_field": 2}
    assert (figures["seconds"], figures["requests_per_s"]) == (1.0, 7.0)
    assert figures["load_cpu"] == 0.25


def test_codes_of_whatever_answers_are_bounded() -> None:
    tally = LoadTally()
    for number in range(MAX_CODES + 10):
        tally.count_error(f"code_{number}")
    assert len(tally.errors) == MAX_CODES + 1
    assert tally.errors["other"] == 10


def test_figures_beside_those_of_a_bare_loop() -> None:
    router, bare = (
        LoadTally(in_time=n, seconds=1.0, latencies=a_count_of([us]))
        for n, us in ((50, 300), (100, 100))
    )
    ratios = compute_ratios(compute_figures(router, 1), compute_figures(bare, 1))
    assert (ratios["requests_per_s"], ratios["p99"]) == (0.5, pytest.approx(3, abs=0.03))
    unmeasured = compute_ratios(compute_figures(LoadTally(), 1), compute_figures(bare, 1))
    assert (unmeasured["requests_per_s"], unmeasured["p99"]) == (0.0, None)


@pytest.mark.parametrize(("in_flight", "count"), [(64, 1), (64, 3), (3, 3), (7, 2)])
def test_processes_share_what_is_in_flight(in_flight: int, count: int) -> None:
    shares = share_plan(LoopPlan(subject="s", in_flight=in_flight), count)
    each = [one.in_flight for one in shares]
    assert (sum(each), max(each) - min(each) <= 1) == (in_flight, True)


def test_processes_share_a_rate_and_send_in_turn() -> None:
    shares = share_plan(LoopPlan(subject="s", rate=900.0), 3)
    due = sorted((number + one.phase) / one.rate for one in shares for number in range(100))
    assert due == pytest.approx([place / 900 for place in range(300)])


@pytest.mark.parametrize(
    ("data", "head", "code"),
    [
        (b'{"ok": true, "decision": {}}', None, None),
        (b'{"ok":false,"error":{"code":"overloaded","message":"m"}}', None, "overloaded"),
        (b'{"stream":"ROUTER_DECIDE","seq":7}', None, ""),
        (b'{"error":{"code":503,"err_code":10077,"description":"full"}}', None, "jetstream_10077"),
        (b"", b"NATS/1.0 503\r\n\r\n", "no_answer"),
        (b"", None, "unreadable_answer"),
        (b"\xff", None, "unreadable_answer"),
        (b'{"ok": false}', None, "unreadable_answer"),
        (b"[1]", None, "unreadable_answer"),
    ],
)
def test_an_answer_is_a_decision_or_has_a_code(
    data: bytes, head: bytes | None, code: str | None
) -> None:
    assert read_code(data, head) == code


def test_warnings_are_told_by_their_codes() -> None:
    assert read_warnings(b'{"ok":true,"warnings":[{"code":"assignment_skipped"},7]}') == [
        "assignment_skipped"
    ]
    assert read_warnings(b'{"ok":true,"metadata":[1]}') == []
    assert read_warnings(b'{"ok":true,]}') == ["unreadable_answer"]


@pytest.mark.parametrize(
    ("token", "number"),
    [(b"17", 17), (b"a", None), (b"", None), (b"9" * 30, None)],
)
def test_the_last_token_of_an_inbox_is_a_number_or_nothing(
    token: bytes, number: int | None
) -> None:
    assert read_number(b"_INBOX.x." + token, len(b"_INBOX.x.")) == number
