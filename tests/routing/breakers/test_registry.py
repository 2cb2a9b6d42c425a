"""Breakers by name."""

from router.routing.breakers import BreakerRegistry, BreakerRules


def test_a_name_has_one_breaker() -> None:
    book = BreakerRegistry()
    assert book.get("a") is book.get("a")
    assert book.snapshots()["a"].state == "closed"


def test_the_one_longest_unused_goes_first() -> None:
    book = BreakerRegistry(limit=2)
    for name in ("a", "b", "a", "c"):
        book.get(name)
    assert list(book.snapshots()) == ["a", "c"]


def test_a_new_breaker_has_the_rules_of_its_name() -> None:
    book = BreakerRegistry(lambda name: BreakerRules(failure_threshold=len(name)))
    assert book.get("abc").rules.failure_threshold == 3


def test_who_is_gone_is_forgotten_and_begins_anew() -> None:
    book = BreakerRegistry(lambda _: BreakerRules(failure_threshold=1))
    for name in ("gone", "kept"):
        breaker = book.get(name)
        permit = breaker.acquire(1.0)
        assert permit is not None
        breaker.record_failure(permit)
    book.keep({"kept", "new"})
    assert {name: one.state for name, one in book.snapshots().items()} == {"kept": "open"}
    assert book.get("gone").state == "closed"
