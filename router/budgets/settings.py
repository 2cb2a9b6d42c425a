"""How instances share what a budget has left."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from router.core.setting_values import Group


class BudgetsConfig(Group):
    """How instances share what a budget has left (docs/reference/budgets.md#slices)."""

    slice_percent: Annotated[float, Field(gt=0, le=50)] = Field(
        default=1.0,
        description=(
            "what an instance takes of a budget in advance, percent of its amount; "
            "overspending is bounded by it"
        ),
    )
    reservation_ms: Annotated[int, Field(ge=1_000, le=86_400_000)] = Field(
        default=600_000,
        description=(
            "a reservation without a result ends one to two times so long after its decision, "
            "milliseconds"
        ),
    )
    least_reservation: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1,
        description=(
            "the share of a provider's listed cost that a decision reserves at least, however "
            "little results cost"
        ),
    )
