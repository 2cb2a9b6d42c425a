"""How long askers are told to ask again while a stream or a bucket refuses them.

What refuses until an operator acts (it is missing, sealed) may be made again within seconds. So an
asker is told `overloaded` at first, and `cannot_be_stored` once the refusal has lasted.
"""

from __future__ import annotations

from router.core.clock import Clock, steady


class Patience:
    """Of one stream or bucket. `seconds`: the setting `effects.patience_ms`."""

    def __init__(self, seconds: float, *, now: Clock = steady) -> None:
        self._seconds = seconds
        self._now = now
        self._since: float | None = None  # the first refusal of those that go on

    @property
    def is_over(self) -> bool:
        """Whether it is of no use to ask again before an operator has acted."""
        return self._since is not None and self._since <= self._now() - self._seconds

    def note(self, *, is_refused: bool) -> None:
        """Note one answer. Silence is no refusal."""
        if not is_refused:
            self._since = None
        elif self._since is None:
            self._since = self._now()
