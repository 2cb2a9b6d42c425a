"""Recorded decisions: a recorder at a fixed hour, and what it keeps of one request."""

from collections.abc import Mapping

from router.contracts.decision import RouteRequest
from router.decide.model import DecisionRecorder
from router.policies.model import NO_STATES, Policy, ProviderState, RecordedDecision
from tests.support.policy import a_policy, a_provider, a_request, a_rule

TENANT = "acme"
HALVES = (a_provider("left", 50), a_provider("right", 50))


def a_recorder(*tenants: str, **bounds: int) -> DecisionRecorder:
    return DecisionRecorder(
        frozenset(tenants or (TENANT,)), **bounds, today=lambda: 1_700_000_000.0
    )


def record_decision(
    policy: Policy | None = None,
    request: RouteRequest | None = None,
    *,
    states: Mapping[str, ProviderState] = NO_STATES,
    remembered: str | None = None,
    now: float = 0.0,
    **bounds: int,
) -> RecordedDecision:
    """What a recorder keeps of one decision."""
    asked = request or a_request()
    recorder = a_recorder(asked.tenant_id, **bounds)
    recorder.evaluate(
        policy or a_policy(*HALVES), asked, states=states, now=now, remembered=remembered
    )
    case = recorder.find(asked.tenant_id, request_id=asked.answer_id)
    assert case is not None
    return case


def a_policy_that_asks_for(when: Mapping[str, object]) -> Policy:
    """No provider is eligible in it, so the policy asks its one fallback rule."""
    return a_policy(
        a_provider("idle", 0), a_provider("spare", 0), fallbacks=[a_rule("spare", when)]
    )
