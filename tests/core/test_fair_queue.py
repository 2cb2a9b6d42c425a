"""Who is served when, and what one tenant may hold."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from router.core.fair_queue import COST_BYTES, FairQueue

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
    for tenant in "abcdefghij":
        filled(queue, tenant, 20)
    served(queue, 23)
    filled(queue, "q", 2)
    assert served(queue, 12) == "qdefghijabcq"


def test_newcomers_do_not_keep_the_round_from_being_served() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    filled(queue, "a", 9)
    served(queue, 1)
    for tenant in "qrstuvwxyz":
        filled(queue, tenant, 1)
    assert served(queue, 13) == "qrsatuvwxyzaa"


def test_a_lone_tenant_fills_half_and_the_next_ones_find_room() -> None:
    queue: FairQueue[str] = FairQueue(1024, MANY)
    assert [filled(queue, tenant) for tenant in "abc"] == [512, 342, 256]


def test_bytes_are_shared_as_places_are() -> None:
    queue: FairQueue[str] = FairQueue(1024, 100)
    assert [filled(queue, tenant, size=10) for tenant in "ab"] == [5, 3]
    assert not queue.put("c", "c", 101)


def test_a_tenant_that_holds_nothing_finds_a_place_however_many_halved_what_was_free() -> None:
    queue: FairQueue[str] = FairQueue(16, 16 * 1024)
    for tenant in "abcdefgh":
        filled(queue, tenant, size=100)
    assert queue.put("q", "q", 100)
    assert len(queue) <= 64
    assert "q" in served(queue, 9)


def test_a_tenant_that_is_not_ready_is_passed_by() -> None:
    queue: FairQueue[str] = FairQueue(1000, MANY)
    filled(queue, "a", 2)
    filled(queue, "b", 1)
    assert [queue.take_of(lambda tenant: tenant == "b") for _ in range(2)] == ["b", None]
    assert [queue.take_of(lambda _: True) for _ in range(3)] == ["a", "a", None]


def test_a_large_item_costs_its_tenant_more_turns() -> None:
    queue: FairQueue[str] = FairQueue(1024, MANY)
    filled(queue, "a", 2, size=3 * COST_BYTES)
    filled(queue, "b", 8)
    assert served(queue, 10) == "bbbabbbbab"


def test_an_idle_tenant_leaves_nothing_behind() -> None:
    queue: FairQueue[str] = FairQueue(16, 16)
    for _ in range(100):
        assert queue.put("a", "a", 8)
        assert queue.take() == "a"
    assert (queue.take(), len(queue), queue._tenants, queue._newcomers) == (None, 0, {}, {})


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


Put = tuple[str, int, bool]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5 * COST_BYTES), st.booleans())),
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
