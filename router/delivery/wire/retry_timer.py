"""When to try again what the server refused: pauses that grow, with a random part, so that a
cluster without a quorum is not flooded.
"""

from __future__ import annotations

import random

from router.core.clock import Clock, steady


class RetryTimer:
    """When to try again: at once, then after pauses that double from `first` to `most`, each up to
    a half shorter at random.
    """

    def __init__(self, first: float, most: float, clock: Clock = steady) -> None:
        self._first = first
        self._most = most
        self._clock = clock
        self._pause = first
        self._due_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._due_at

    def delay(self) -> None:
        """An attempt begins: the next one is due after a pause, which is longer each time."""
        self._due_at = self._clock() + self._pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._pause = min(self._pause * 2, self._most)

    def reset(self) -> None:
        """An attempt succeeded: pauses are short again, and so is the one that is under way."""
        self._pause = self._first
        self._due_at = min(self._due_at, self._clock() + self._first)
