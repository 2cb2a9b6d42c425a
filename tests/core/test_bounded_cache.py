"""A bounded cache that removes expired values by itself."""

import gc
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.bounded_cache import (
    CLEANUP_INTERVAL_S,
    MAX_REMOVED_PER_CALL,
    PART,
    SHARES,
    BoundedCache,
    PartedCache,
    weight_of,
)

TTL_S = 10.0


def a_memory(count: int, now: float, limit: int = 1_000_000) -> BoundedCache[int, int]:
    """Values 0, 1, 2 … kept at one moment."""
    memory: BoundedCache[int, int] = BoundedCache(limit)
    for key in range(count):
        memory.put(key, key, now + TTL_S, now)
    return memory


def test_what_is_held_follows_what_is_kept() -> None:
    memory = a_memory(0, 0.0)
    most = 0
    for number in range(10_000):
        now = number / 100
        memory.put(number, number, now + TTL_S, now)
        most = max(most, len(memory))
    assert most <= 100 * (TTL_S + CLEANUP_INTERVAL_S) + 1


def test_nothing_that_is_kept_is_in_the_collectors_sight() -> None:
    """It looks through the young ones as soon as there are enough of them: what stays for minutes
    must not be among them.
    """
    memory: BoundedCache[str, str] = BoundedCache(1_000_000)
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        for number in range(1_000):
            memory.put(f"key {number}", f"value {number}", TTL_S, 0.0)
        assert gc.get_count()[0] - before < 10
    finally:
        gc.enable()


def test_after_a_rush_each_call_clears_away_a_little() -> None:
    memory = a_memory(100, 0.0)
    memory.put(-1, -1, 30.0, 20.0)
    assert len(memory) == 101 - MAX_REMOVED_PER_CALL
    for number in range(2, 9):
        memory.put(-number, -number, 30.0, 20.0)
    assert len(memory) == 8


def test_a_value_that_is_read_stays_no_longer_than_twice_its_time() -> None:
    memory = a_memory(1, 0.0)
    for second in range(1, int(2 * TTL_S + CLEANUP_INTERVAL_S) + 1):
        memory.get(0, float(second))
        memory.put(second, second, second + TTL_S, float(second))
    assert 0 not in memory.keys()  # noqa: SIM118 - a memory is no dictionary


def test_clearing_away_leaves_the_order() -> None:
    memory = a_memory(3, 0.0, limit=3)
    memory.put(3, 3, 20.0, 2 * CLEANUP_INTERVAL_S)
    assert memory.keys() == [1, 2, 3]
    memory.put(4, 4, 20.0, 4 * CLEANUP_INTERVAL_S)
    assert memory.keys() == [2, 3, 4]


def test_a_value_whose_time_is_over_already_is_no_trouble() -> None:
    memory = a_memory(0, 0.0)
    memory.put(1, 1, 5.0, 6.0)
    assert memory.get(1, 6.0) is None


@pytest.mark.parametrize("memory", [BoundedCache[str, int](2), PartedCache[str, int](2)], ids=type)
def test_what_is_read_is_the_most_recently_used_until_its_time_is_over(
    memory: BoundedCache[str, int] | PartedCache[str, int],
) -> None:
    memory.put("a", 1, TTL_S, 0.0)
    memory.put("b", 1, 2 * TTL_S, 0.0)
    assert (memory.get("a", 0.0), memory.peek("b", 0.0)) == (1, 1)
    memory.put("c", 1, TTL_S, 0.0)
    assert (memory.peek("a", 0.0), memory.peek("b", 0.0)) == (1, None)
    assert (memory.find_expiry("a"), memory.find_expiry("b")) == (TTL_S, -inf)
    assert (memory.peek("a", TTL_S), memory.get("a", TTL_S), memory.get("x", 0.0)) == (None,) * 3


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "get", "remove")),
        st.integers(0, 20),
        st.floats(0.0, 3.0),
        st.sampled_from((1.0, TTL_S)),
    ),
    max_size=200,
)


@given(STEPS)
def test_no_value_goes_before_its_time(steps: list[tuple[str, int, float, float]]) -> None:
    memory, model, now = a_memory(0, 0.0), {}, 0.0
    for number, (step, key, pause, ttl_s) in enumerate(steps):
        now += pause
        if step == "put":
            memory.put(key, number, now + ttl_s, now)
            model[key] = (number, now + ttl_s)
        elif step == "remove":
            memory.remove(key)
            model.pop(key, None)
        value, until = model.get(key, (None, now))
        assert memory.get(key, now) == (value if until > now else None)


# -- owners and weights ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "limit", "little"),
    [
        (BoundedCache[str, int](1_000), 1_000, 10),
        (BoundedCache[str, int](10), 10, 1),
        (PartedCache[str, int](10), 10, 1),
    ],
    ids=["large", "small", "parted"],
)
def test_an_owner_that_floods_takes_no_room_from_one_that_holds_little(
    memory: BoundedCache[str, int] | PartedCache[str, int], limit: int, little: int
) -> None:
    for number in range(little):
        memory.put(f"quiet {number}", number, TTL_S, 0.0, owner="quiet")
    for number in range(20_000):
        memory.put(f"loud {number}", number, TTL_S, 0.0, owner="loud")
    assert [memory.peek(f"quiet {number}", 0.0) for number in range(little)] == [*range(little)]
    assert len(memory) <= limit * 9 // 8


def test_owners_within_their_shares_lose_the_value_longest_unused() -> None:
    memory: BoundedCache[str, int] = BoundedCache(640)
    for number in range(641):
        memory.put(f"k {number}", number, TTL_S, 0.0, owner=f"o {number}")
    assert memory.peek("k 0", 0.0) is None
    assert (memory.peek("k 1", 0.0), len(memory)) == (1, 640)


def test_a_value_that_weighs_more_counts_as_several() -> None:
    gone: list[str] = []
    memory: BoundedCache[str, str] = BoundedCache(100, gone.append)
    for number in range(10):
        memory.put(f"k {number}", "v", TTL_S, 0.0, weight=30)
    assert len(memory) == 3
    assert gone == [f"k {number}" for number in range(7)]
    assert [weight_of({"a": "b" * count}) for count in (1, 1022, 1023, 10_000)] == [1, 1, 2, 10]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.integers(1, 5), st.booleans()),
        max_size=200,
    )
)
def test_whatever_is_kept_and_forgotten_the_weights_are_right(
    steps: list[tuple[int, str, int, bool]],
) -> None:
    memory: BoundedCache[int, int] = BoundedCache(20)
    weights: dict[int, int] = {}
    for number, (key, owner, weight, is_kept) in enumerate(steps):
        if is_kept:
            memory.put(key, key, number + 50.0, float(number), owner=owner, weight=weight)
            weights[key] = weight
        else:
            memory.remove(key)
        held = sum(weights[one] for one in memory.keys())  # noqa: SIM118 - a memory is no dictionary
        owners = memory._owners
        assert held == memory._weight == sum(owners.of_owner.values()) <= 22
        assert owners.heavy == sum(one > owners.share for one in owners.of_owner.values())


# -- parts -----------------------------------------------------------------------------------------


@given(STEPS)
def test_in_parts_no_value_goes_before_its_time(steps: list[tuple[str, int, float, float]]) -> None:
    memory: PartedCache[int, int] = PartedCache(4 * PART)
    model, now = dict[int, tuple[int, float]](), 0.0
    for number, (step, key, pause, ttl_s) in enumerate(steps):
        now += pause
        if step == "put":
            memory.put(key, number, now + ttl_s, now)
            model[key] = (number, now + ttl_s)
        value, until = model.get(key, (None, now))
        expected = value if until > now else None
        assert memory.peek(key, now) == memory.get(key, now) == expected
        if expected is not None:
            assert memory.find_expiry(key) == until


def test_no_part_is_ever_large_and_all_together_hold_about_the_limit() -> None:
    """A dictionary that is built anew holds the loop for as long as it is large."""
    memory: PartedCache[str, int] = PartedCache(100_000)
    for number in range(150_000):
        memory.put(f"k {number}", number, TTL_S, 0.0, owner=f"o {number % 1_000}")
    kept = list(memory.list_keys())
    assert max(map(len, kept)) <= PART
    assert 95_000 < len(memory) == sum(map(len, kept)) <= 100_000 + len(kept)
    assert sum(memory.peek(f"k {number}", 0.0) is not None for number in range(40_000)) == 0


def test_a_small_one_has_one_part_and_its_order() -> None:
    memory: PartedCache[int, int] = PartedCache(3)
    for number in range(5):
        memory.put(number, number, TTL_S, 0.0)
    assert list(memory.list_keys()) == [[2, 3, 4]]


def test_an_owner_keeps_its_share_of_the_whole_however_it_falls_into_parts() -> None:
    memory: PartedCache[str, int] = PartedCache(4 * PART)
    share = 4 * PART // SHARES
    for number in range(share):
        memory.put(f"quiet {number}", number, TTL_S, 0.0, owner="quiet")
    for number in range(8 * PART):
        memory.put(f"loud {number}", number, TTL_S, 0.0, owner="loud")
    assert [memory.peek(f"quiet {number}", 0.0) for number in range(share)] == list(range(share))


def test_what_is_there_is_returned_and_else_the_new_value_is_kept() -> None:
    memory: PartedCache[str, int] = PartedCache(3)
    assert memory.get_or_put("a", 1, TTL_S, 0.0) is None
    assert memory.get_or_put("a", 2, 2 * TTL_S, 1.0) == 1
    # its time is over: the next one is kept, under the same key once
    assert memory.get_or_put("a", 3, 3 * TTL_S, TTL_S) is None
    assert (memory.get("a", TTL_S), len(memory)) == (3, 1)


def test_what_is_asked_for_is_the_most_recently_used() -> None:
    memory: PartedCache[str, int] = PartedCache(2)
    for key in ("a", "b", "a", "c"):
        memory.get_or_put(key, 1, TTL_S, 0.0, owner="o")
    assert list(memory.list_keys()) == [["a", "c"]]
