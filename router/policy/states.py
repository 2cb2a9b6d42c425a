"""What is known of providers at run time, as the engine sees it. Nothing here measures or changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct


class ProviderState(Struct, frozen=True):
    """One provider, for one tenant. None: no result has been seen yet."""

    blocked_until: float = 0.0  # the breaker lets nobody through before this time, on the clock of `now`
    latency_ms: float | None = None  # moving average
    cost: float | None = None  # moving average


class ProviderStates(Protocol):
    """The states of one tenant's providers, by name; a dict will do."""

    def get(self, provider_id: str, /) -> ProviderState | None: ...


NO_STATES: Mapping[str, ProviderState] = MappingProxyType({})  # the common case: the engine knows it by identity


ATTEMPTS = "attempts"  # in a retry's metadata: whoever follows it up reads there how often it was tried


class PreviousAttempt(Struct, frozen=True):
    """The assignment that a request follows up: who had it, and how often so far (the first time included)."""

    provider_id: str
    attempts: int


class TraceStep(Struct, frozen=True):
    """One line of a trace: what was considered (a provider, or a rule's path) and what became of it."""

    stage: str  # pipeline | eligible | fallback | sticky | weighted
    subject: str
    verdict: str
