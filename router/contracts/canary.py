"""A canary: the candidate of a policy beside the version in force, as it stands in the policy's own
record (docs/reference/canary.md).

    policies bucket    {version, author, time, hash, document, note?, canary{document, share,
                       guards, until_ms, …}?}

So the history of the policy is the history of its canaries, a write that has not seen the canary
conflicts with it, and every instance sees the candidate and the version in force at the same
moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

CONTROL, CANDIDATE = "control", "candidate"  # the arms: the version in force, and what is tried
ARMS = (CONTROL, CANDIDATE)
ARM = "canary"  # the key in a decision's metadata that names the arm

ERROR_RATE, P95_LATENCY = "error_rate", "p95_latency"
GUARDED = (ERROR_RATE, P95_LATENCY)
MAX_RATIO = 100.0
MIN_SHARE, MAX_SHARE = 0.01, 50.0  # percent
MAX_SPAN_MS = 30 * 86_400_000  # of a canary
MAX_MIN_RESULTS = 1_000_000
MAX_NOTE = 500  # characters


class CanaryGuard(Struct, frozen=True):
    """The figure of the candidate is at most `ratio` times that of the version in force."""

    figure: str  # error_rate | p95_latency
    ratio: Annotated[float, Meta(ge=1, le=MAX_RATIO)]

    def __str__(self) -> str:
        return f"{self.figure}<={self.ratio:g}x"


class CanaryPlan(Struct, frozen=True, kw_only=True):
    """`share`: percent of requests, and of sessions. `until_ms`: by the server's clock. A shadow
    decides beside the others, unused.
    """

    document: Mapping[str, object]
    share: Annotated[float, Meta(ge=MIN_SHARE, le=MAX_SHARE)]
    guards: Annotated[tuple[CanaryGuard, ...], Meta(max_length=len(GUARDED))]
    until_ms: Annotated[int, Meta(ge=0, le=2**53)]
    min_results: Annotated[int, Meta(ge=1, le=MAX_MIN_RESULTS)]
    is_shadow: bool = False
