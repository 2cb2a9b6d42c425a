"""One provider that limits one tenant: for how long it is left alone, and how it is tried
afterwards.

`limited_providers` keeps them; `narrowed` leaves their providers out of the choice.
"""

from __future__ import annotations

CAREFUL_S = 5.0  # no longer is it probed: a tenant that only asks for decisions reports no result
PROBE_S = 1.0  # between two probes


class RateClosure:
    """Times are on the steady clock."""

    __slots__ = ("_probed_until", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self._probed_until = 0.0

    def block_end(self) -> float:
        """When it may be chosen; a time in the past: now."""
        return max(self.until, self._probed_until)

    def begin_probe(self, now: float) -> None:
        self._probed_until = now + PROBE_S

    def extend(self, until: float) -> None:
        self.until, self._probed_until = until, 0.0
