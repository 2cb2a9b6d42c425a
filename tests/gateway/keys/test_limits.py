"""Wrong keys make an address wait, and no other one (docs/how-to/gateway-keys.md#guesses)."""

import pytest

from router.gateway.keys.model.api_key import ApiKey, make_key
from router.gateway.keys.model.limits import (
    ADDRESSES,
    FORGET_S,
    LONGEST_WAIT_S,
    TRUSTED_S,
    GuessLimiter,
    KeyRates,
    find_network,
)
from router.policies.model.policy import RateLimit

ANN, BOB = "192.0.2.7", "192.0.2.8"
KEY, OTHER = "0" * 12, "1" * 12


def guess(limiter: GuessLimiter, address: str, times: int, now: float = 0.0) -> None:
    for _ in range(times):
        limiter.record_wrong(address, OTHER, now)


def test_the_fifth_wrong_key_makes_its_address_wait_and_no_other() -> None:
    limiter = GuessLimiter()
    guess(limiter, ANN, 4)
    assert limiter.find_wait(ANN, OTHER, 0.0) == 0
    guess(limiter, ANN, 1)
    assert limiter.find_wait(ANN, OTHER, 0.0) == 1
    assert limiter.find_wait(ANN, "", 0.75) == 0.25
    assert limiter.find_wait(ANN, OTHER, 1.0) == 0
    assert limiter.find_wait(BOB, KEY, 0.0) == 0
    assert (limiter.wrong, limiter.held_back) == (5, 2)


def test_each_further_one_doubles_the_wait_up_to_a_minute() -> None:
    limiter, now, waits = GuessLimiter(), 0.0, []
    guess(limiter, ANN, 4)
    for _ in range(9):
        limiter.record_wrong(ANN, "", now)
        waits.append(limiter.find_wait(ANN, "", now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, LONGEST_WAIT_S, LONGEST_WAIT_S, LONGEST_WAIT_S]


def test_a_minute_after_the_wait_without_a_wrong_key_all_is_forgotten() -> None:
    limiter = GuessLimiter()
    guess(limiter, ANN, 5)
    guess(limiter, ANN, 1, now=FORGET_S + 0.99)  # within a minute of the end of the first wait
    assert limiter.find_wait(ANN, "", FORGET_S + 0.99) == pytest.approx(2)
    guess(limiter, BOB, 5)
    guess(limiter, BOB, 1, now=FORGET_S + 1)
    assert limiter.find_wait(BOB, "", FORGET_S + 1) == 0


def test_a_key_that_was_right_from_the_address_lately_does_not_wait() -> None:
    limiter = GuessLimiter()
    limiter.record_right(ANN, KEY, 0.0)
    guess(limiter, ANN, 12)
    assert limiter.find_wait(ANN, KEY, 0.0) == 0
    assert limiter.find_wait(ANN, OTHER, 0.0) == LONGEST_WAIT_S  # a neighbour's new key
    assert limiter.find_wait(BOB, KEY, 0.0) == 0


def test_a_right_key_forgives_no_wrong_one() -> None:
    limiter = GuessLimiter()
    for _ in range(6):
        limiter.record_right(ANN, KEY, 0.0)
        limiter.record_wrong(ANN, OTHER, 0.0)
    assert limiter.find_wait(ANN, OTHER, 0.0) == 2


def test_a_key_that_is_wrong_now_waits_though_it_was_right() -> None:
    limiter = GuessLimiter()
    limiter.record_right(ANN, KEY, 0.0)
    for _ in range(5):
        limiter.record_wrong(ANN, KEY, 1.0)
    assert limiter.find_wait(ANN, KEY, 1.0) == 1


def test_what_was_right_long_ago_waits() -> None:
    limiter = GuessLimiter()
    limiter.record_right(ANN, KEY, 0.0)
    limiter.record_right(ANN, KEY, TRUSTED_S / 2)  # not written again yet
    limiter.record_right(BOB, KEY, 0.0)
    limiter.record_right(BOB, KEY, TRUSTED_S / 2 + 1)
    for address in (ANN, BOB):
        guess(limiter, address, 12, now=TRUSTED_S - 1)
    assert limiter.find_wait(ANN, KEY, TRUSTED_S - 1) == 0
    assert limiter.find_wait(ANN, KEY, TRUSTED_S) > 0
    assert limiter.find_wait(BOB, KEY, TRUSTED_S) == 0


def test_an_ipv6_address_counts_by_its_64() -> None:
    limiter = GuessLimiter()
    for last in range(5):
        limiter.record_wrong(f"2001:db8:0:1::{last:x}", "", 0.0)
    assert limiter.find_wait("2001:db8:0:1:ffff::9", "", 0.0) == 1
    assert limiter.find_wait("2001:db8:0:2::1", "", 0.0) == 0
    assert find_network("::ffff:192.0.2.7") == find_network(ANN)
    assert find_network("fe80::1%eth0") == find_network("fe80::2%eth1")
    assert find_network("2001:db8:0:1::1").around == find_network("2001:db8:0:2::1").around
    assert find_network("2001:db8:0:1::1").around != find_network("2001:db8:1:1::1").around
    assert find_network("192.0.9.9").around == find_network(ANN).around
    assert find_network("192.1.2.7").around != find_network(ANN).around


def test_what_is_no_address_is_cut() -> None:
    assert len(find_network("x" * 100_000).name) == 64
    assert find_network("").name == ""


def test_a_flood_of_addresses_of_one_network_drops_its_own_and_no_memory_grows() -> None:
    limiter = GuessLimiter()
    guess(limiter, ANN, 12)
    limiter.record_right(BOB, KEY, 0.0)
    for number in range(2 * ADDRESSES):
        address = f"2001:db8:7:{number:x}::1"
        limiter.record_wrong(address, "", 1.0)
        limiter.record_right(address, OTHER, 1.0)
    assert len(limiter._wrong) <= ADDRESSES
    assert len(limiter._right) <= ADDRESSES
    assert limiter.find_wait(ANN, OTHER, 1.0) == LONGEST_WAIT_S - 1
    guess(limiter, BOB, 12, now=1.0)
    assert limiter.find_wait(BOB, KEY, 1.0) == 0


# -- The rate of a key.


def key_with(rate: RateLimit | None) -> ApiKey:
    return make_key("acme", 0, rate=rate).key


def test_a_key_asks_as_often_as_its_rate_says() -> None:
    rates, key = KeyRates(), key_with(RateLimit(2.0, 3))
    assert [rates.take(key, 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.take(key, 0.5) == 0
    assert rates.take(key, 0.5) == 0.5
    assert [rates.take(key_with(RateLimit(2.0, 3)), 0.5) for _ in range(2)] == [0, 0]


def test_a_key_without_a_rate_asks_as_often_as_it_likes() -> None:
    rates, key = KeyRates(), key_with(None)
    assert {rates.take(key, 0.0) for _ in range(1_000)} == {0.0}
