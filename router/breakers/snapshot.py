"""What a breaker says of itself, as values: where it stands, how it got there, and who may make a call."""

from __future__ import annotations

from msgspec import Struct

CLOSED = "closed"
OPEN = "open"
HALF_OPEN = "half_open"


class CallPermit(Struct, frozen=True, gc=False):
    """The right to make one call. Every change of state ends the leases of before: what comes of them is told to nobody."""

    generation: int  # counts the changes of state
    probe: int = 0  # 0: of a closed breaker, which all callers share


class BreakerSnapshot(Struct, frozen=True):
    """One breaker at one moment. `opened_at_ms`: milliseconds since the epoch, None while closed."""

    state: str  # closed | open | half_open
    opened_at_ms: int | None
    failure_count: int  # failures in a row
    error_rate: float  # 0..1, over the window


class BreakerTransition(Struct, frozen=True):
    """One change of one breaker. `left_s`: seconds until probes may begin, 0 unless it opened."""

    name: str
    before: str
    state: str
    opened_at_ms: int | None
    left_s: float
    is_remote: bool  # another instance's doing, taken over by this one
