"""Places shared by tenants."""

from hypothesis import given
from hypothesis import strategies as st

from router.shares import Shares


def taken(shares: Shares, tenant: str, times: int) -> int:
    return sum(shares.take(tenant) for _ in range(times))


def test_one_tenant_gets_half_and_a_newcomer_half_of_the_rest() -> None:
    shares = Shares(8)
    assert [taken(shares, tenant, 10) for tenant in ("a", "b", "c", "d")] == [4, 2, 1, 1]
    assert shares.taken == 8


def test_the_only_place_is_taken_and_given_back() -> None:
    shares = Shares(1)
    assert [shares.take("a"), shares.take("b")] == [True, False]
    shares.give("a")
    assert shares.take("b")
    assert len(shares) == 1


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcde")), max_size=200), st.integers(1, 20))
def test_no_more_is_held_than_there_is_and_nothing_is_left_of_who_holds_none(steps: list[tuple[bool, str]], places: int) -> None:
    shares, held = Shares(places), dict.fromkeys("abcde", 0)
    for takes, tenant in steps:
        free = places - sum(held.values())
        if takes:
            assert shares.take(tenant) is (held[tenant] < free)
            held[tenant] += held[tenant] < free
        elif held[tenant]:
            shares.give(tenant)
            held[tenant] -= 1
    assert (shares.taken, len(shares)) == (sum(held.values()), sum(count > 0 for count in held.values()))
