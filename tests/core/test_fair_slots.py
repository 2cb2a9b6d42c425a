"""Places shared by tenants."""

from hypothesis import given
from hypothesis import strategies as st

from router.core.fair_slots import FairSlots


def taken(shares: FairSlots, tenant: str, times: int) -> int:
    return sum(shares.acquire(tenant) for _ in range(times))


def test_one_tenant_gets_half_and_a_newcomer_half_of_the_rest() -> None:
    shares = FairSlots(8)
    assert [taken(shares, tenant, 10) for tenant in ("a", "b", "c", "d")] == [4, 2, 1, 1]
    assert shares.taken == 8


def test_several_are_taken_and_given_back_at_once() -> None:
    shares = FairSlots(100)
    assert [shares.acquire("a", 51), shares.acquire("a", 50), shares.acquire("b", 26)] == [
        False,
        True,
        False,
    ]
    shares.release("a", 50)
    assert (len(shares), shares.taken) == (0, 0)


def test_the_only_place_is_taken_and_given_back() -> None:
    shares = FairSlots(1)
    assert [shares.acquire("a"), shares.acquire("b")] == [True, False]
    shares.release("a")
    assert shares.acquire("b")
    assert len(shares) == 1


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("abcde")), max_size=200), st.integers(1, 20)
)
def test_no_more_is_held_than_there_is_and_nothing_is_left_of_who_holds_none(
    steps: list[tuple[bool, str]], places: int
) -> None:
    shares, held = FairSlots(places), dict.fromkeys("abcde", 0)
    for takes, tenant in steps:
        free = places - sum(held.values())
        if takes:
            assert shares.acquire(tenant) is (held[tenant] < free)
            held[tenant] += held[tenant] < free
        elif held[tenant]:
            shares.release(tenant)
            held[tenant] -= 1
    assert (shares.taken, len(shares)) == (
        sum(held.values()),
        sum(count > 0 for count in held.values()),
    )
