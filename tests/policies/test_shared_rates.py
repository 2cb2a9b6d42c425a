"""Rate limits over several instances: whatever they do, and when some die, not more than one limit
and a slice of each is let through.
"""

import asyncio
import math
from random import Random

import pytest

from router.policies.model import RateShort, RateSlice, SharedRates, take_tokens
from router.policies.model.policy import RateLimit
from router.policies.model.rate_limits import ALONE_S, WAIT_S
from tests.support.policy import a_policy

SECOND_NS = 10**9


class Town:
    """Instances that share a bucket, whose answers come at once. Each has a clock that is wrong,
    and reads the server's.
    """

    def __init__(self, instances: int) -> None:
        self.now = 1000.0
        self.full_at_ns = 0
        self.instances = [self.make_instance() for _ in range(instances)]

    def make_instance(self) -> SharedRates:
        rates = SharedRates(clock=lambda: self.now)
        rates.on_asked = self.grant
        return rates

    def grant(self, one: RateSlice) -> None:
        taken = take_tokens(
            one.limit, self.full_at_ns, round(self.now * SECOND_NS), one.find_wanted(self.now)
        )
        self.full_at_ns = taken.full_at_ns if taken.granted else self.full_at_ns
        one.on_granted(taken.granted, self.now, taken.wait_ns / SECOND_NS)

    def ask(self, number: int, policy: object, tenant: str = "acme") -> float | None:
        """A request that waits for the bucket looks again."""
        for _ in range(3):
            try:
                return self.instances[number].allow(policy, tenant, self.now)  # type: ignore[arg-type]
            except RateShort:
                continue
        raise AssertionError("it waits without end")


@pytest.mark.parametrize(("rate", "burst"), [(1, 1), (10, 3), (100, 50), (1000, 10), (3, 100)])
def test_not_more_than_the_limit_and_a_slice_of_each_when_some_die(rate: float, burst: int) -> None:
    """T26 in small."""
    dice, town, policy = (
        Random(24),
        Town(4),
        a_policy(rate_limit={"requests_per_second": rate, "burst": burst}),
    )
    allowed, asked_s = 0, 20.0
    while town.now < 1000 + asked_s:
        allowed += town.ask(dice.randrange(4), policy) is None
        town.now += dice.expovariate(3 * rate)
        if dice.random() < 0.01:
            town.instances[dice.randrange(4)] = town.make_instance()
    most = burst + rate * (town.now - 1000)
    assert allowed <= most + 4 * max(1, min(rate, burst) / 10)
    # tokens of those that die are lost, and those that are held for long
    assert allowed >= 0.6 * most


def test_what_one_instance_leaves_another_may_use() -> None:
    town, policy = Town(2), a_policy(rate_limit={"requests_per_second": 1, "burst": 100})
    allowed = sum(town.ask(0, policy) is None for _ in range(70)) + sum(
        town.ask(1, policy) is None for _ in range(70)
    )
    assert 90 <= allowed <= 100


def test_a_refusal_says_when_the_next_token_comes_and_asks_no_bucket_until_then() -> None:
    town, policy = Town(1), a_policy(rate_limit={"requests_per_second": 2, "burst": 1})
    assert town.ask(0, policy) is None
    assert town.ask(0, policy) == 500
    town.instances[0].on_asked = lambda _: pytest.fail("the bucket was asked")
    town.now += 0.4
    assert town.ask(0, policy) == pytest.approx(100, abs=1)
    town.instances[0].on_asked = town.grant
    town.now += 0.1
    assert town.ask(0, policy) is None


def test_tokens_not_used_for_a_second_are_dropped() -> None:
    town, policy = Town(2), a_policy(rate_limit={"requests_per_second": 100, "burst": 100})
    for _ in range(50):
        town.ask(0, policy)
    town.now += 10
    assert sum(town.ask(number % 2, policy) is None for number in range(300)) == 100


async def test_a_bucket_without_an_answer_lets_each_instance_count_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("router.policies.model.rate_limits.WAIT_S", 0.01)
    town, policy = Town(1), a_policy(rate_limit={"requests_per_second": 1, "burst": 3})
    rates = town.instances[0]
    causes: list[str] = []
    rates.on_asked, rates.on_alone = lambda _: None, causes.append
    with pytest.raises(RateShort) as short:
        rates.allow(policy, "acme", town.now)
    await asyncio.wait_for(short.value.wait(), WAIT_S * 30)
    assert causes == ["no answer of the bucket within 0.01 s"]
    assert [rates.allow(policy, "acme", town.now) for _ in range(4)] == [None, None, None, 1000]
    town.now += ALONE_S
    with pytest.raises(RateShort):
        rates.allow(policy, "acme", town.now)


def test_the_bucket_is_asked_ahead_once_less_than_half_of_a_slice_is_left() -> None:
    asked: list[int] = []
    slices: list[RateSlice] = []
    rates = SharedRates(clock=lambda: 1000.0)
    rates.on_asked = lambda one: (slices.append(one), asked.append(one.tokens))
    policy = a_policy(rate_limit={"requests_per_second": 100, "burst": 100})
    with pytest.raises(RateShort):
        rates.allow(policy, "acme", 1000.0)
    (one,) = slices
    asked.clear()
    one.on_granted(8, 1000.0, 0.0)
    one.size = 8
    for _ in range(4):
        assert rates.allow(policy, "acme", 1000.0) is None
    assert (one.tokens, asked) == (4, [])
    assert rates.allow(policy, "acme", 1000.0) is None
    assert (one.tokens, asked) == (3, [3])
    assert rates.allow(policy, "acme", 1000.0) is None
    assert asked == [3]


def test_a_slice_doubles_while_it_is_used_up_quickly_and_halves_where_it_was_dropped() -> None:
    """Up to a tenth of the smaller of rate and burst."""
    one, now, sizes = RateSlice("acme", "p", RateLimit(100, 50)), 0.0, []
    for passed in (0, 0.125, 0.25, 0.125, 0.125, 0.125, 1, 1.125, 1.125, 1.125):
        now += passed
        held = one.tokens if passed < 1 else 0
        one.adapt_size(now)
        one.on_granted(1, now, 0.0)
        sizes.append(one.size)
        assert (one.held_until, one.refused_until) == (now + 1, -math.inf)
        assert one.tokens == held + 1
    assert sizes == [1, 2, 2, 4, 5, 5, 5, 2, 1, 1]


@pytest.mark.parametrize(
    ("rate", "burst", "wait_s", "pause_s"),
    [(100, 50, 0.5, 0.5), (100, 50, 0.01, 0.02), (1000, 8, 0.001, 0.002)],
)
def test_a_bucket_without_a_token_is_not_asked_until_there_is_one_or_for_a_moment(
    rate: float, burst: int, wait_s: float, pause_s: float
) -> None:
    one = RateSlice("acme", "p", RateLimit(rate, burst))
    one.on_granted(0, 8.0, wait_s)
    assert (one.refused_until, one.tokens, one.held_until) == (8.0 + pause_s, 0, -math.inf)


async def test_operators_hear_why_an_instance_counts_alone_and_it_does_so_for_a_while() -> None:
    causes: list[str] = []
    now = [1000.0]
    rates = SharedRates(clock=lambda: now[0])
    rates.on_alone = causes.append
    policy = a_policy(rate_limit={"requests_per_second": 1, "burst": 1})
    rates.count_alone("no answer")
    assert causes == ["no answer"]
    assert rates.allow(policy, "acme", now[0]) is None
    now[0] += ALONE_S
    with pytest.raises(RateShort):
        rates.allow(policy, "acme", now[0])


def test_a_token_given_back_is_there_again() -> None:
    town, policy = Town(1), a_policy(rate_limit={"requests_per_second": 1, "burst": 1})
    assert town.ask(0, policy) is None
    town.instances[0].give_back(policy, "acme", town.now)
    assert town.ask(0, policy) is None
    assert town.ask(0, policy) == 1000


@pytest.mark.parametrize(
    ("rate", "burst"), [(1, 1_000_000), (1_000_000, 1_000_000), (1_000_000, 1), (3.7, 5)]
)
def test_a_limit_at_its_bounds_gives_its_burst_and_not_one_more(rate: float, burst: int) -> None:
    limit, now = RateLimit(rate, burst), 1_800_000_000 * SECOND_NS
    first = take_tokens(limit, 0, now, 2 * burst)
    assert first.granted == burst
    again = take_tokens(limit, first.full_at_ns, now, 1)
    assert (again.granted, again.wait_ns > 0) == (0, True)
    assert take_tokens(limit, first.full_at_ns, now + again.wait_ns, 2).granted == 1


def test_a_limit_that_became_faster_does_not_wait_for_the_slow_one() -> None:
    slow = take_tokens(RateLimit(1, 1_000_000), 0, SECOND_NS, 1_000_000)
    taken = take_tokens(RateLimit(100, 50), slow.full_at_ns, SECOND_NS, 1)
    assert (taken.granted, taken.wait_ns) == (0, SECOND_NS // 100)


def test_one_tenant_with_thousands_of_limits_drops_its_own_slices() -> None:
    rates = SharedRates(limit=640)
    rates.on_asked = lambda one: one.on_granted(1, 0.0, 0.0)
    quiet = a_policy(rate_limit={"requests_per_second": 1, "burst": 1})
    with pytest.raises(RateShort):
        rates.allow(quiet, "quiet", 0.0)
    for number in range(3000):
        with pytest.raises(RateShort):
            rates.allow(
                a_policy(
                    policy_id=f"p-{number}", rate_limit={"requests_per_second": 1, "burst": 1}
                ),
                "loud",
                0.0,
            )
    assert len(rates._slices) <= 720
    assert rates.allow(quiet, "quiet", 0.0) is None
