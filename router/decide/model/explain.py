"""A recorded decision as JSON for operators: its inputs, its answer, and whether a new evaluation
gives the same answer.

    {at_ms, request, policy{tenant_id, policy_id, version}, states, figures?, remembered?, previous?, decision | error,
     reevaluation{decision | error, is_same, trace[{stage, subject, verdict}], uncertainty?} |
     reevaluation{unavailable}, shadow{decision | error, is_same}?}

An `uncertainty` says why the record is too little to be sure: a payload or a masked value took
part.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import to_builtins

from router.contracts.decision import Decision, Refusal
from router.contracts.request import RouteRequest
from router.policies.model import (
    Policy,
    ProviderState,
    RecordedDecision,
    Reevaluation,
    is_same_choice,
    reevaluate,
    select_arm,
)

Fields = dict[str, object]


def explain_decision(case: RecordedDecision, policy: Policy | None) -> Fields:
    """`policy`: the very version that decided the case; None when it is not kept any more."""
    if policy is not None:
        reevaluation = _describe_reevaluation(reevaluate(select_arm(policy, case.arm), case), case)
    else:
        reevaluation = {
            "unavailable": (
                f"version {case.policy_version} of {case.policy_tenant_id}/{case.policy_id} is "
                "not kept any more"
            )
        }
    known: Fields = {
        "at_ms": case.at_ms,
        "request": encode_request(case.request),
        "policy": _describe_policy(case),
        "states": {
            name: _describe_state(state, case.now) for name, state in sorted(case.states.items())
        },
        "figures": {name: to_builtins(known) for name, known in sorted(case.figures.items())}
        or None,
        "remembered": case.remembered,
        "previous": to_builtins(case.previous),
        **encode_answer(case.answer),
        "reevaluation": reevaluation,
        "shadow": _describe_shadow(policy, case),
    }
    return {name: value for name, value in known.items() if value is not None}


def encode_request(request: RouteRequest) -> Fields:
    """The request's fields; absent ones are left out."""
    fields: Mapping[str, object] = to_builtins(request, enc_hook=dict)
    return {name: value for name, value in fields.items() if value not in (None, {}, False)}


def encode_answer(answer: Decision | Refusal) -> Fields:
    """The answer as a requester gets it: `decision`, or else `error`."""
    fields: Mapping[str, object] = to_builtins(answer, enc_hook=dict)
    name = "decision" if isinstance(answer, Decision) else "error"
    return {name: {key: value for key, value in fields.items() if value is not None}}


def _describe_policy(case: RecordedDecision) -> Fields:
    named: Fields = {
        "tenant_id": case.policy_tenant_id,
        "policy_id": case.policy_id,
        "version": case.policy_version,
    }
    return named if case.arm is None else {**named, "arm": case.arm}


def _describe_shadow(policy: Policy | None, case: RecordedDecision) -> Fields | None:
    """What the shadow would have answered, and whether it would again."""
    if case.shadow is None:
        return None
    shown = encode_answer(case.shadow)
    if policy is None or policy.canary is None:
        return shown
    return {
        **shown,
        "is_same": is_same_choice(reevaluate(policy.canary.candidate, case).answer, case.shadow),
    }


def _describe_reevaluation(made: Reevaluation, case: RecordedDecision) -> Fields:
    told: Fields = {
        **encode_answer(made.answer),
        "is_same": is_same_choice(made.answer, case.answer),
        "trace": to_builtins(made.steps),
    }
    return told if made.uncertainty is None else {**told, "uncertainty": made.uncertainty}


def _describe_state(state: ProviderState, now: float) -> Fields:
    """`open_for_ms`: for how long its breaker would still have blocked it; another process cannot
    read this one's clock.
    """
    open_for_ms = round((state.blocked_until - now) * 1000) if state.blocked_until > now else None
    known = {"open_for_ms": open_for_ms, "latency_ms": state.latency_ms, "cost": state.cost}
    return {name: value for name, value in known.items() if value is not None}
