"""Breakers by service and tenant: a tenant closes a service to itself, two that fail close it to
all, and any success opens it.
"""

import pytest

from router.core.breakers import BreakerRegistry, BreakerRules, BreakerTransition
from router.core.breakers.registry import Openings
from tests.support.breakers import FrozenClocks, a_registry

RULES = {"failure_threshold": 3, "timeout_s": 60.0}


class Callers:
    """Calls of one service."""

    def __init__(self) -> None:
        self.clock = FrozenClocks()
        self.book = a_registry(now=self.clock, **RULES)

    def may_call(self, tenant: str) -> bool:
        breaker = self.book.get("guard", tenant)
        permit = breaker.acquire(1.0)
        if permit is not None:
            breaker.release(permit)
        return permit is not None

    def call(self, tenant: str, *, ok: bool, is_tenants: bool = False) -> None:
        breaker = self.book.get("guard", tenant)
        permit = breaker.acquire(1.0)
        assert permit is not None, f"{tenant} may not call"
        if ok:
            breaker.record_success(permit, 1.0)
        else:
            breaker.record_failure(permit, is_tenants=is_tenants)

    def fail(self, *tenants: str, is_tenants: bool = False) -> None:
        for tenant in tenants:
            for _ in range(RULES["failure_threshold"]):  # type: ignore[call-overload]
                self.call(tenant, ok=False, is_tenants=is_tenants)


def test_a_service_has_one_breaker_for_each_tenant() -> None:
    book = a_registry()
    assert book.get("a", "acme") is book.get("a", "acme")
    assert book.get("a", "acme") is not book.get("a", "evil")
    assert book.snapshots()["a"].worst.state == "closed"


def test_a_tenant_that_fails_alone_is_refused_alone() -> None:
    callers = Callers()
    callers.fail("evil")
    assert (callers.may_call("evil"), callers.may_call("acme"), callers.may_call("third")) == (
        False,
        True,
        True,
    )
    assert dict(callers.book.snapshots()["guard"].not_closed) == {"evil": "open"}
    assert list(callers.book.list_not_closed()) == [("guard", "open")]


def test_failures_of_a_burst_that_was_under_way_count_for_its_tenant_alone() -> None:
    callers = Callers()
    breaker = callers.book.get("guard", "evil")
    permits = [breaker.acquire(1.0) for _ in range(100)]
    for permit in permits:
        assert permit is not None
        breaker.record_failure(permit)
    assert callers.may_call("acme")


def test_two_tenants_that_fail_while_no_call_succeeds_close_it_to_all_until_the_first_may_try_again() -> (
    None
):
    callers = Callers()
    callers.fail("acme", "evil")
    assert not callers.may_call("third")
    callers.clock.at += 60.0
    assert callers.may_call("third")
    callers.call("acme", ok=False)  # the probe: open again
    assert callers.may_call("third"), "the other one's time is over, and it has not failed again"
    callers.call("evil", ok=False)
    assert not callers.may_call("third")


def test_what_tenants_may_have_caused_themselves_closes_it_to_them_alone() -> None:
    callers = Callers()
    callers.fail("acme", "evil", "worse", is_tenants=True)
    assert [callers.may_call(tenant) for tenant in ("acme", "evil", "worse", "third")] == [
        False,
        False,
        False,
        True,
    ]
    callers.fail("fourth", "fifth")
    assert not callers.may_call("third")


def test_a_success_of_any_tenant_says_that_the_service_is_well() -> None:
    callers = Callers()
    callers.fail("evil")
    callers.call("acme", ok=True)
    callers.fail("worse")
    assert callers.may_call("third")
    assert not callers.may_call("worse")


def test_a_success_that_comes_late_opens_it_to_those_that_had_not_failed() -> None:
    callers = Callers()
    under_way = callers.book.get("guard", "third")
    permit = under_way.acquire(1.0)
    assert permit is not None
    callers.fail("acme", "evil")
    assert not callers.may_call("third")
    under_way.record_success(permit, 1.0)
    assert callers.may_call("third")


def test_of_a_service_that_is_down_two_openings_are_kept_however_many_tenants_there_are() -> None:
    openings = Openings()
    for number in range(1000):
        openings.add(f"t{number}", float(number))
    assert len(openings.until) == 2
    assert (openings.is_failing(997.0), openings.is_failing(998.0)) == (True, False)


@pytest.mark.parametrize("others", [2, 50])
def test_the_one_longest_unused_goes_first_and_is_no_longer_counted(others: int) -> None:
    book = BreakerRegistry(
        lambda _: BreakerRules(failure_threshold=1), limit=2, on_change=lambda _: None
    )
    breaker = book.get("a", "gone")
    permit = breaker.acquire(1.0)
    assert permit is not None
    breaker.record_failure(permit)
    for number in range(others):
        book.get("a", f"t{number}")
    assert (len(book), list(book.list_not_closed())) == (2, [])
    breaker.apply_remote_close()  # a call that was under way ends: nothing is kept of it
    assert (len(book), list(book.list_not_closed())) == (2, [])


def test_a_new_breaker_has_the_rules_of_its_service_and_its_changes_are_told_by_both_names() -> (
    None
):
    heard: list[BreakerTransition] = []
    book = BreakerRegistry(
        lambda name: BreakerRules(failure_threshold=len(name)), on_change=heard.append
    )
    breaker = book.get("a", "acme")
    permit = breaker.acquire(1.0)
    assert permit is not None
    breaker.record_failure(permit)
    assert [(one.name, one.state) for one in heard] == [("a/acme", "open")]


def test_a_service_that_is_gone_is_forgotten_and_begins_anew() -> None:
    book = a_registry(failure_threshold=1)
    for name in ("gone", "kept"):
        breaker = book.get(name, "acme")
        permit = breaker.acquire(1.0)
        assert permit is not None
        breaker.record_failure(permit)
    book.keep({"kept", "new"})
    assert {name: one.worst.state for name, one in book.snapshots().items()} == {"kept": "open"}
    assert list(book.list_services()) == ["kept"]
    assert book.get("gone", "acme").state == "closed"
