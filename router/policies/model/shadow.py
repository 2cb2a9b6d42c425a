"""A shadow: what the candidate of a policy would have chosen, beside the choice that counts
(docs/reference/canary.md#shadow).
"""

from __future__ import annotations

from collections.abc import Mapping

from router.contracts.decision import Decision, Refusal
from router.contracts.request import RouteRequest
from router.policies.model.engine import evaluate
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.model.policy import Policy
from router.policies.model.reevaluation import has_session_key
from router.policies.model.states import NO_STATES, PreviousAttempt, ProviderStates


def evaluate_shadow(
    policy: Policy,
    request: RouteRequest,
    *,
    states: ProviderStates = NO_STATES,
    figures: Mapping[str, LearnedFigures] = NO_FIGURES,
    now: float,
    remembered: str | None = None,
    previous: PreviousAttempt | None = None,
) -> Decision | Refusal | None:
    """The same inputs as `evaluate` had for `policy`. None: it has no shadow."""
    canary = policy.canary
    if canary is None or not canary.plan.is_shadow:
        return None
    session_key = policy.sticky.session_key if policy.sticky is not None else None
    remembered = remembered if has_session_key(canary.candidate, session_key) else None
    return evaluate(
        canary.candidate,
        request,
        states=states,
        figures=figures,
        now=now,
        remembered=remembered,
        previous=previous,
    )
