"""What a decide handler is given: its rules, its ports, and the call that it works on.

    DecideMeter         counts what was decided
    ProviderKnowledge   the states and figures of a tenant's providers, and who hears of a probe

A port has no default: a missing call would pass in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.header_rules import Violation
from router.core.message import Message
from router.decide.model.read import RequestLimits
from router.decide.settings import DecideConfig
from router.delivery.settings import AdmissionConfig
from router.policies.model import PreviousAttempt, ProviderStates
from router.policies.model.measurements import LearnedFigures


class DecideCall(Struct, gc=False):
    """One request, from its reading to its answer. `started`: steady seconds."""

    request: RouteRequest
    message: Message
    started: float
    # Its decision becomes an assignment: it asks for that, and its tenant may.
    is_pushed: bool
    # Of the request that it follows up, once that was looked up.
    previous: PreviousAttempt | None = None


class DecideRules(Struct, frozen=True, kw_only=True):
    """The settings that the handler and its decider need."""

    limits: RequestLimits = RequestLimits()
    # Empty: all.
    tenants_allowed: frozenset[str] = frozenset()
    decide: DecideConfig = DecideConfig()
    admission: AdmissionConfig = AdmissionConfig()
    # Bytes of an answer: for a larger one the server would close the connection. By default what
    # a server takes that was told nothing.
    read_max_answer: Callable[[], int] = lambda: MAX_PAYLOAD_BYTES


class SessionMeter(Protocol):
    """Counts what became of sessions."""

    def on_session(self, outcome: str) -> None:
        """hit | miss | moved."""


class DecideMeter(SessionMeter, Protocol):
    """Counts decisions. Called for every message, so it must be cheap."""

    def on_decision(
        self, request: RouteRequest, answer: Decision | Refusal, seconds: float
    ) -> None: ...

    def on_violations(
        self,
        message: Message,
        violations: tuple[Violation, ...],
        tenant_id: str | None,
        trace_id: str | None,
    ) -> None:
        """The ids as they were read from the message; None: they could not be."""

    def on_repeat(self) -> None: ...

    def on_assignment_skipped(self, reason: str) -> None:
        """A requested assignment was not made; the answer says why."""


class ProviderKnowledge(Protocol):
    """What is known of a tenant's providers at this moment."""

    def states_of(self, tenant_id: str) -> ProviderStates:
        """Averages, breakers, rate limits; NO_STATES costs nothing."""

    def figures_of(self, tenant_id: str) -> Mapping[str, LearnedFigures]:
        """What a strategy looks at, by provider."""

    def on_decision(self, tenant_id: str, decision: Decision) -> None:
        """A decision that may be a probe.

        Its provider's breaker is not closed, or it limits the tenant, or it fails.
        """
