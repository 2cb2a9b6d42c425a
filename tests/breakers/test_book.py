"""Breakers by name."""

from router.breakers import Book, BreakerRules


def test_a_name_has_one_breaker() -> None:
    book = Book()
    assert book.gate("a") is book.gate("a")
    assert book.standings()["a"].state == "closed"


def test_the_one_longest_unused_goes_first() -> None:
    book = Book(limit=2)
    for name in ("a", "b", "a", "c"):
        book.gate(name)
    assert list(book.standings()) == ["a", "c"]


def test_a_new_breaker_has_the_rules_of_its_name() -> None:
    book = Book(lambda name: BreakerRules(failure_threshold=len(name)))
    assert book.gate("abc").rules.failure_threshold == 3
