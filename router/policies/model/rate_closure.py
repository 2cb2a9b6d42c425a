"""One provider that limits one tenant: for how long it is left alone, and how it is tried
afterwards.

`limited_providers` keeps them; `narrowed` leaves their providers out of the choice.
"""

from __future__ import annotations

from msgspec import Struct

CAREFUL_S = 5.0  # no longer is it probed: a tenant that only asks for decisions reports no result
PROBE_S = 1.0  # between two probes


class LimitRules(Struct, frozen=True, kw_only=True):
    """How long a provider is left alone: `usual_s` where it names no time, never longer than
    `longest_s`.
    """

    usual_s: float = 5.0
    longest_s: float = 600.0

    def find_span(self, retry_after_ms: int | None) -> float:
        """Seconds."""
        return min(
            self.usual_s if retry_after_ms is None else retry_after_ms / 1000, self.longest_s
        )


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
