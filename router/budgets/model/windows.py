"""Windows of budgets: hours, days and months, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

WINDOWS = ("hour", "day", "month")


class BudgetWindow(Struct, frozen=True):
    """From `starts_s` on, before `ends_s`: seconds since the epoch."""

    starts_s: int
    ends_s: int


def find_window(window: str, at_s: float) -> BudgetWindow:
    """The window that a time is in; `window`: one of WINDOWS."""
    at = datetime.fromtimestamp(at_s, UTC).replace(minute=0, second=0, microsecond=0)
    if window == "hour":
        return BudgetWindow(int(at.timestamp()), int((at + timedelta(hours=1)).timestamp()))
    day = at.replace(hour=0)
    if window == "day":
        return BudgetWindow(int(day.timestamp()), int((day + timedelta(days=1)).timestamp()))
    month = day.replace(day=1)
    after = (month + timedelta(days=31)).replace(day=1)
    return BudgetWindow(int(month.timestamp()), int(after.timestamp()))
