"""Breakers by name."""

from router.breakers import BreakerRegistry, BreakerRules


def test_a_name_has_one_breaker() -> None:
    book = BreakerRegistry()
    assert book.gate("a") is book.gate("a")
    assert book.standings()["a"].state == "closed"


def test_the_one_longest_unused_goes_first() -> None:
    book = BreakerRegistry(limit=2)
    for name in ("a", "b", "a", "c"):
        book.gate(name)
    assert list(book.standings()) == ["a", "c"]


def test_a_new_breaker_has_the_rules_of_its_name() -> None:
    book = BreakerRegistry(lambda name: BreakerRules(failure_threshold=len(name)))
    assert book.gate("abc").rules.failure_threshold == 3


def test_who_is_gone_is_forgotten_and_begins_anew() -> None:
    book = BreakerRegistry(lambda _: BreakerRules(failure_threshold=1))
    for name in ("gone", "kept"):
        gate = book.gate(name)
        lease = gate.enter(1.0)
        assert lease is not None
        gate.failed(lease)
    book.keep({"kept", "new"})
    assert {name: one.state for name, one in book.standings().items()} == {"kept": "open"}
    assert book.gate("gone").state == "closed"
