"""Which violations get events of their own: those of one tenant cannot take the place of another's."""

import pytest

from router.operate.violations import windows as violation_windows
from router.operate.violations.windows import MAX_WINDOWS, ViolationWindows
from tests.operate.test_violations import a_broken_contract


def add(windows: ViolationWindows, tenant_id: str | None, **fields: object) -> int:
    """How many events it gets now."""
    chosen = windows.add(a_broken_contract(tenant_id=tenant_id, **fields), has_room=True)
    for window in chosen:
        window.clear()
    return len(chosen)


def left(windows: ViolationWindows) -> list[tuple[str | None, int, bool]]:
    return [
        (window.last.tenant_id, window.count, window.is_shared) for window in windows.end_minute()
    ]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violation_windows, "MAX_WINDOWS", 6)


@pytest.mark.usefixtures("few")
def test_tenants_without_end_share_a_window() -> None:
    windows = ViolationWindows(1, lambda _: False)
    assert [add(windows, f"t{number}") for number in range(100)] == 4 * [1] + 96 * [0]
    assert left(windows) == [("t99", 96, True)]
    assert MAX_WINDOWS >= 1_000


@pytest.mark.usefixtures("few")
def test_made_up_tenants_do_not_hide_one_that_the_operator_named() -> None:
    windows = ViolationWindows(1, {"beta", "gamma"}.__contains__)
    for number in range(100):
        add(windows, f"t{number}")
    assert [add(windows, tenant) for tenant in ("beta", "gamma", "beta")] == [1, 1, 0]
    assert ("beta", 1, False) in left(windows)


def test_a_tenant_that_breaks_all_it_can_does_not_hide_another_one() -> None:
    windows = ViolationWindows(2, lambda _: False)
    for number in range(10_000):
        add(windows, "acme", subject=f"work.{number % 50}")
    assert [add(windows, "beta") for _ in range(3)] == [1, 1, 0]


def test_many_tenants_do_not_empty_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one minute each gets an event; beyond those there are so many."""
    monkeypatch.setattr(violation_windows, "MAX_EVENTS", 10)
    windows = ViolationWindows(20, lambda _: True)
    stored = sum(add(windows, f"t{number % 300}") for number in range(3_000))
    assert 300 + 10 <= stored <= 300 + 10 + 1
    assert sum(count for _, count, _ in left(windows)) == 3_000 - stored
    assert add(windows, "t1") + add(windows, "t1") == 2  # another minute


def test_what_events_alone_need_is_looked_for_until_there_are_enough() -> None:
    windows = ViolationWindows(2, lambda _: False)
    key = ("beta", "work", a_broken_contract().violations)
    seen = []
    for number in range(4):
        seen.append(windows.is_full(key))
        add(windows, "beta", inbox_prefix=None if seen[-1] else f"_INBOX.{number}")
    assert seen == [False, False, False, True]
    (window,) = windows.end_minute()
    assert window.inbox_prefix == "_INBOX.1"
