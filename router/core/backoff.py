"""How long to wait before the next attempt: a schedule of seconds whose last step repeats. And
intervals with a random part.
"""

from __future__ import annotations

import random
from collections.abc import Sequence


def delay_after(attempt: int, schedule: Sequence[float]) -> float:
    """Seconds to wait after the `attempt`-th start, counted from 1 (1, 2, 4, 4 …:
    docs/reference/contracts.md#consumers).
    """
    return schedule[min(attempt, len(schedule)) - 1]


def spread(seconds: float) -> float:
    """A quarter more or less, at random: so that what many instances do at this interval does not
    fall together.
    """
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
