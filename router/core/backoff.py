"""How long to wait before the next attempt: a schedule of seconds whose last step repeats."""

from __future__ import annotations

from collections.abc import Sequence


def delay_after(attempt: int, schedule: Sequence[float]) -> float:
    """Seconds to wait after the `attempt`-th start, counted from 1 (1, 2, 4, 4 …: docs/contracts.md#consumers)."""
    return schedule[min(attempt, len(schedule)) - 1]
