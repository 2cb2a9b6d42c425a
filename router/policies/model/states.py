"""The run-time states of providers as `evaluate` reads them. Values only: other files measure and
change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from router.contracts.decision import Decision


class ProviderState(Struct, frozen=True):
    """One provider, for one tenant. None: no result has come yet."""

    # the breaker blocks every call until this time, on the clock of `now`
    blocked_until: float = 0.0
    latency_ms: float | None = None  # moving average
    cost: float | None = None  # moving average
    samples: int = 0  # successes in these averages, of this instance
    limited_until: float = 0.0  # a rate limit blocks every call until this time, as a breaker does


NO_AVERAGES: Mapping[str, ProviderState] = MappingProxyType({})


class ProviderStates(Protocol):
    """The states of one tenant's providers, by name; a dict will do."""

    def get(self, provider_id: str, /) -> ProviderState | None: ...


class AverageStates(dict[str, ProviderState]):
    """Averages alone: none of these providers is blocked.

    `learned`: decisions with these averages, each beside the plan's decision whose id is its key; a
    change of an average clears it.
    """

    __slots__ = ("learned",)

    def __init__(self, averages: Mapping[str, ProviderState] = NO_AVERAGES) -> None:
        super().__init__(averages)
        self.learned: dict[int, tuple[Decision, Decision]] = {}


# the common case: `evaluate` compares by identity and takes its fast path
NO_STATES: Mapping[str, ProviderState] = MappingProxyType({})


# in a retry's metadata: how many attempts there were, read by the next follow-up
ATTEMPTS = "attempts"


class PreviousAttempt(Struct, frozen=True):
    """The earlier assignment that a request follows up: its provider, and the number of attempts so
    far.
    """

    provider_id: str
    attempts: int


class TraceStep(Struct, frozen=True):
    """One line of a trace: the subject (a provider, or a rule's path) and the verdict on it."""

    # pipeline | eligible | fallback | sticky | candidate, or the reason of a choice among several
    stage: str
    subject: str
    verdict: str
