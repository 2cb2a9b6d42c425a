"""What the settings decide about the messages of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.config import Settings
    from router.contracts.shapes import ShapeLimits


def read_limits(settings: Settings) -> ShapeLimits:
    from router.contracts.shapes import ShapeLimits

    return ShapeLimits(max_cost=settings.results.max_cost, assignment_subjects=settings.assignment.subjects)
