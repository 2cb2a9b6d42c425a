"""Who is served when, and what one tenant may hold."""

from collections import Counter, deque
from heapq import heapify, heappop, heappush
from itertools import cycle, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.fair_queue import BYTE_S, ITEM_S, MOST_S, FairQueue
from router.core.fair_slots import FairSlots

MANY = 1 << 30


def filled(queue: FairQueue[str], tenant: str, count: int = 1000, size: int = 1) -> int:
    return sum(queue.put(tenant, tenant, size) for _ in range(count))


def served(queue: FairQueue[str], count: int) -> str:
    return "".join(queue.take() or "-" for _ in range(count))


def test_tenants_are_served_one_by_one_however_much_one_has_queued() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    filled(queue, "a", 400)
    filled(queue, "b", 3)
    assert served(queue, 8) == "abababaa"


def test_a_tenant_with_a_weight_gets_so_many_turns_in_a_row() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY, {"b": 3})
    filled(queue, "a", 9)
    filled(queue, "b", 9)
    assert served(queue, 8) == "abbbabbb"


def test_a_tenant_that_held_nothing_is_served_before_the_round_of_those_that_wait() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    costs = {tenant: 0.001 + number / 1e6 for number, tenant in enumerate("abcdefghij")}
    for tenant in costs:
        filled(queue, tenant, 20)
    take_for(queue, costs, 23)
    filled(queue, "q", 2)
    assert served(queue, 9) == "qdefghijq"


def test_newcomers_do_not_keep_the_round_from_being_served() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    filled(queue, "a", 9)
    filled(queue, "b", 9)
    served(queue, 3)
    for tenant in "qrstuvwxyz":
        filled(queue, tenant, 1)
    assert served(queue, 15) == "qrstbuvwxyzabab"


def test_a_lone_tenant_fills_half_and_the_next_ones_find_room() -> None:
    queue: FairQueue[str] = FairQueue(1024, MANY)
    assert [filled(queue, tenant) for tenant in "abc"] == [512, 342, 256]


def test_bytes_are_shared_as_places_are() -> None:
    queue: FairQueue[str] = FairQueue(1024, 100)
    assert [filled(queue, tenant, size=10) for tenant in "ab"] == [5, 3]
    assert [queue.put("c", "c", size) for size in (26, 25)] == [False, True]
    assert [FairQueue(9, 100).put("a", "a", size) for size in (101, 100)] == [False, True]


def test_a_tenant_that_holds_nothing_finds_a_place_however_many_halved_what_was_free() -> None:
    queue: FairQueue[str] = FairQueue(16, 16 * 1024)
    for tenant in "abcdefgh":
        filled(queue, tenant, size=100)
    assert queue.put("q", "q", 100)
    assert len(queue) <= 64
    assert "q" in served(queue, 9)


def test_equal_shares_hold_at_most_four_times_the_places_and_four_times_the_bytes() -> None:
    queue: FairQueue[str] = FairQueue(16, MANY)
    assert sum(filled(queue, str(number), 1) for number in range(100)) == 64
    shares: FairQueue[str] = FairQueue(1000, 100_000)
    sizes = [100_000 // number for number in range(2, 150)]
    taken_in = [size for size in sizes if filled(shares, str(size), 1, size)]
    assert 399_000 < sum(taken_in) <= 400_000


def test_a_tenant_that_is_not_ready_is_passed_by() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    filled(queue, "a", 2)
    filled(queue, "b", 1)
    assert [queue.take_of(lambda tenant: tenant == "b") for _ in range(2)] == ["b", None]
    assert [queue.take_of(lambda _: True) for _ in range(3)] == ["a", "a", None]


@pytest.mark.parametrize(("places", "others"), [(4, 5), (128, 160)])
def test_a_tenant_with_a_backlog_is_served_beside_those_that_ask_one_at_a_time(
    places: int, others: int
) -> None:
    """For slots that come free one by one: each of the others asks again once it was served."""
    queue, slots = FairQueue[str](10_000, MANY), FairSlots(places)
    running = deque[str]()
    waiting = [*(f"other-{number}" for number in range(others)), *["backlog"] * 10]
    for tenant in waiting:
        queue.put(tenant, tenant, 100)
    served: Counter[str] = Counter()
    for _ in range(2_000):
        if running:
            slots.release(ended := running.popleft())
            queue.put(ended, ended, 100)
        while (tenant := queue.take_of(slots.has_room)) is not None:
            slots.acquire(tenant)
            running.append(tenant)
            served[tenant] += 1
    assert served["backlog"] + 1 >= min(served[f"other-{number}"] for number in range(others)) > 1


def test_a_large_item_costs_its_tenant_more_turns() -> None:
    queue: FairQueue[str] = FairQueue(1024, MANY)
    filled(queue, "a", 2, size=int(3 * ITEM_S / BYTE_S))
    filled(queue, "b", 8, size=0)
    assert served(queue, 10) == "abbbbabbbb"


def take_for(queue: FairQueue[str], costs: dict[str, float], count: int) -> Counter[str]:
    """So many items, each of which costs what its tenant's do; the seconds of each tenant."""
    seconds: Counter[str] = Counter()
    for _ in range(count):
        tenant = queue.take()
        assert tenant is not None
        queue.charge(costs[tenant])
        seconds[tenant] += costs[tenant]  # type: ignore[assignment]
    return seconds


def test_a_tenant_whose_items_cost_a_hundred_times_as_much_gets_a_hundredth_of_the_count() -> None:
    queue: FairQueue[str] = FairQueue(10_000, MANY)
    filled(queue, "a", 500)
    filled(queue, "b", 1_200)
    order = []
    for _ in range(1_010):
        order.append(queue.take() or "-")
        queue.charge({"a": 0.05, "b": 0.0005}[order[-1]])
    assert order.count("a") == 10


def test_one_item_is_charged_with_at_most_a_second() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    filled(queue, "a", 2)
    filled(queue, "b", 9)
    order = []
    for _ in range(7):
        order.append(queue.take() or "-")
        queue.charge({"a": 60.0, "b": 0.3}[order[-1]])
    assert "".join(order) == "abbbbab"


Costs = dict[str, list[float]]


@settings(max_examples=15)
@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"),
        st.lists(st.floats(ITEM_S, MOST_S), min_size=1, max_size=5),
        min_size=2,
    ),
    st.integers(1, 100),
)
def test_of_tenants_that_wait_none_is_ahead_by_more_than_its_dearest_item(
    costs: Costs, count: int
) -> None:
    queue: FairQueue[str] = FairQueue(2_000, MANY)
    for tenant in costs:
        assert filled(queue, tenant, count, size=0) == count
    turns = {tenant: cycle(each) for tenant, each in costs.items()}
    seconds = dict.fromkeys(costs, 0.0)
    for _ in range(count):
        tenant = queue.take() or "-"
        seconds[tenant] += (cost := next(turns[tenant]))
        queue.charge(cost)
        ahead = seconds[tenant] - min(seconds.values())
        assert ahead <= max(costs[tenant]) + 1e-9


@settings(max_examples=15)
@given(st.lists(st.floats(ITEM_S, MOST_S), min_size=1, max_size=8), st.integers(0, 30))
def test_a_tenant_of_cheap_items_waits_for_at_most_one_item_of_each_other(
    costs: list[float], before: int
) -> None:
    queue: FairQueue[str] = FairQueue(2_000, MANY)
    each = {str(number): cost for number, cost in enumerate(costs)}
    for tenant in each:
        filled(queue, tenant, 40)
    take_for(queue, each, before)
    filled(queue, "q", 5)
    passed: Counter[str] = Counter()
    for _ in range(5):
        while (tenant := queue.take() or "-") != "q":
            passed[tenant] += 1
            queue.charge(each[tenant])
        assert max(passed.values(), default=0) <= 1
        passed.clear()


@pytest.mark.parametrize("cost", [0.025, 0.0001])
def test_a_tenant_that_asks_one_at_a_time_is_served_no_more_time_than_one_that_waits(
    cost: float,
) -> None:
    queue: FairQueue[str] = FairQueue(20_000, MANY)
    filled(queue, "a", 5_000)
    filled(queue, "b", 5_000)
    costs = {"a": 0.001, "b": 0.0003, "p": cost}
    seconds: Counter[str] = Counter()
    for _ in range(2_000):
        if not queue.has_waiting("p"):
            filled(queue, "p", 1)
        seconds += take_for(queue, costs, 1)
    assert seconds["p"] - min(seconds["a"], seconds["b"]) <= cost + 1e-9


def test_a_dear_tenant_is_served_beside_cheap_ones_and_endless_new_names() -> None:
    queue: FairQueue[str] = FairQueue(20_000, MANY)
    filled(queue, "dear", 5_000)
    filled(queue, "cheap", 5_000)
    order = []
    for number in range(2_000):
        filled(queue, f"new-{number}", 1)
        order.append(queue.take() or "-")
        queue.charge({"dear": 0.01, "cheap": 0.001}.get(order[-1], 0.0001))
    assert order.count("dear") >= 5  # of ever more tenants that wait
    assert abs(order.count("dear") * 0.01 - order.count("cheap") * 0.001) <= 0.01


def test_a_debt_is_forgotten_when_the_round_gets_there_or_no_tenant_waits() -> None:
    queue: FairQueue[str] = FairQueue(1_000, MANY)
    filled(queue, "a", 100)
    filled(queue, "p", 1)
    costs = {"a": 0.001, "p": 0.01}
    assert take_for(queue, costs, 2).keys() == {"a", "p"}
    assert queue._tenants.keys() == {"a", "p"}
    assert [queue.has_waiting(tenant) for tenant in "apx"] == [True, False, False]
    take_for(queue, costs, 11)
    assert queue._tenants.keys() == {"a"}
    filled(queue, "p", 1)
    assert queue.take() == "p"  # a newcomer again
    queue.charge(0.01)
    while queue.take():
        pass
    assert not queue._tenants


def test_no_more_tenants_with_a_debt_are_remembered_than_there_are_places() -> None:
    queue: FairQueue[str] = FairQueue(100, MANY)
    filled(queue, "a", 50)
    for number in range(1_000):
        filled(queue, f"new-{number}", 1)
        if queue.take() != "a":
            queue.charge(MOST_S)
        filled(queue, "a", 1)
    assert len(queue._tenants) - queue._waiting == 100 + 1  # the one that was served last


def test_an_idle_tenant_leaves_nothing_behind() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    for _ in range(100):
        assert queue.put("a", "a", 8)
        assert queue.take() == "a"
    assert (queue.take(), len(queue), queue._tenants, queue._round) == (None, 0, {}, [])


def named(
    queue: FairQueue[str], *items: str, tenant: str = "a", goes_first: bool = False
) -> list[bool]:
    return [queue.put(tenant, item, 1, goes_first=goes_first) for item in items]


def test_what_goes_first_passes_the_others_of_its_tenant_and_takes_no_turn_of_another() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    named(queue, "a1", "a2")
    named(queue, "b1", "b2", "b3", tenant="b")
    named(queue, "A1", "A2", goes_first=True)
    assert [queue.take() for _ in range(7)] == ["A1", "b1", "A2", "b2", "a1", "b3", "a2"]


def test_of_five_turns_of_a_tenant_one_is_for_those_that_do_not_go_first() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    named(queue, *"abcde")
    named(queue, *"ABCDEFGHIJ", goes_first=True)
    assert "".join(queue.take() or "-" for _ in range(15)) == "ABCDaEFGHbIJcde"
    assert queue.take() is None


def test_one_that_goes_first_takes_the_place_of_the_newest_other_of_its_tenant_until_a_fifth_is_left() -> (
    None
):
    queue: FairQueue[str] = FairQueue(20, MANY)
    assert named(queue, *"abcdefghijk") == [True] * 10 + [False]
    assert named(queue, "x", tenant="b") == [True]
    replaced = [queue.put_instead("a", first, 1, goes_first=True) for first in "ABCDEFGHI"]
    assert replaced == [*"jihgfedc", None]
    assert queue.put_instead("b", "X", 1, goes_first=True) is None  # a lone item stays
    assert "".join(queue.take() or "-" for _ in range(11)) == "AxBCDaEFGHb"


def test_others_have_a_fifth_of_their_tenants_places_however_many_go_first() -> None:
    queue: FairQueue[str] = FairQueue(20, MANY)
    assert named(queue, *"ABCDEFGHIJK", goes_first=True) == [True] * 10 + [False]
    assert [queue.put_instead("a", other, 1) for other in "abc"] == ["J", "I", None]
    assert queue.put_instead("a", "K", 1, goes_first=True) is None
    assert "".join(queue.take() or "-" for _ in range(10)) == "ABCDaEFGHb"


def test_a_large_one_takes_no_place_that_is_too_small_for_it() -> None:
    queue: FairQueue[str] = FairQueue(100, 20)
    assert [queue.put("a", item, 5) for item in "abc"] == [True, True, False]
    assert queue.put_instead("a", "A", 11, goes_first=True) is None
    assert queue.put_instead("a", "A", 10, goes_first=True) == "b"
    assert "".join(queue.take() or "-" for _ in range(2)) == "Aa"
    assert (len(queue), queue._free_places, queue._free_bytes) == (0, 100, 20)


@pytest.mark.parametrize("seed", range(5))
def test_where_all_are_ready_the_order_is_that_of_a_queue_that_asks_none(seed: int) -> None:
    asking, plain, rng = (
        FairQueue[tuple[str, float]](10_000, MANY),
        FairQueue[tuple[str, float]](10_000, MANY),
        Random(seed),
    )
    for number in range(400):
        if number % 10 == 0 or rng.random() < 0.5:  # some leave with a debt, and come back
            tenant, cost = rng.choice("abcdefghijkl"), rng.choice([ITEM_S, 0.01, 0.3])
            for queue in (asking, plain) * rng.choice([1, 1, 1, 20]):
                queue.put(tenant, (tenant, cost), 1)
        taken = plain.take()
        ready = set("abcdefghijkl" if rng.random() < 0.7 else "")
        assert (asking.take_of(ready.__contains__) if ready else asking.take()) == taken
        for queue in (asking, plain):
            queue.charge(taken[1] if taken is not None else 0.0)


def test_one_that_asks_dear_items_one_at_a_time_keeps_its_debt_however_many_come_and_go() -> None:
    """Of 400 that ask for a millisecond twice a second, one in a hundred would wait for a second if
    the debt were forgotten whenever no other of the round waits.
    """
    queue: FairQueue[tuple[str, float]] = FairQueue(10_000, MANY)
    now, due = 0.0, [(number / 800, f"quiet-{number}") for number in range(400)] + [(0.0, "dear")]
    heapify(due)
    waits: list[float] = []
    while now < 30.0:
        while due and due[0][0] <= now:
            asked_at, tenant = heappop(due)
            queue.put(tenant, (tenant, asked_at), 1)
            if tenant != "dear":
                heappush(due, (asked_at + 0.5, tenant))
        if (item := queue.take()) is None:
            now = due[0][0]
            continue
        tenant, asked_at = item
        cost = 0.4 if tenant == "dear" else 0.001
        waits.append(now - asked_at)
        now += cost
        queue.charge(cost)
        if tenant == "dear":
            heappush(due, (now, tenant))
    assert sorted(waits)[len(waits) * 99 // 100] < 0.6


Put = tuple[str, int, bool]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400_000), st.booleans())),
    st.integers(1, 40),
)
def test_what_was_put_comes_out_once_in_the_order_of_its_tenant_and_kind(
    puts: list[Put], places: int
) -> None:
    queue: FairQueue[tuple[str, bool, int]] = FairQueue(places, MANY)
    taken_in = []
    for number, (tenant, size, goes_first) in enumerate(puts):
        item = tenant, goes_first, number
        if queue.put(tenant, item, size, goes_first=goes_first):
            taken_in.append(item)
        elif (replaced := queue.put_instead(tenant, item, size, goes_first=goes_first)) is not None:
            taken_in.remove(replaced)
            taken_in.append(item)
    assert len(queue) == len(taken_in) <= 4 * places
    out = [item for _ in taken_in if (item := queue.take()) is not None]
    assert queue.take() is None
    for kind in product("abc", (True, False)):
        assert [item for item in out if item[:2] == kind] == [
            item for item in taken_in if item[:2] == kind
        ]
    assert queue.put("a", ("a", False, 0), 0)
