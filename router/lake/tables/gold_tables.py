"""The tables of gold: how long their windows are, and what their sums are grouped by.

Minutes are for graphs of the whole, so they have no tenant: with one, gold had as many rows as
there were events. They have no model either: a model's name comes from a tenant's own providers,
and rows of all tenants together must not grow by it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

GOLD_DIMENSIONS = ("tenant_id", "provider_id", "event_type", "status", "model")
# the model of an event that names none: a group of its own, so a column of groups is never null
NO_MODEL = ""
WITHOUT_TENANT = ("provider_id", "event_type", "status")


class GoldTable(Struct, frozen=True):
    """One table."""

    grain: Literal["minute", "hour", "day"]
    dimensions: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that a sum is grouped by."""
        return ("window_start", *self.dimensions, "late", "corrects_window")


GOLD_TABLES = {
    "gold_minute": GoldTable("minute", WITHOUT_TENANT),
    "gold_hour": GoldTable("hour", GOLD_DIMENSIONS),
    "gold_day": GoldTable("day", GOLD_DIMENSIONS),
}
