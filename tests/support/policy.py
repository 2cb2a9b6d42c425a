"""Policies and requests, each with only what a test is about."""

from collections.abc import Mapping

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.raw_json import RawJson
from router.policies.model import (
    NO_STATES,
    Policy,
    PolicyError,
    ProviderState,
    evaluate,
    parse_policy,
)


def a_document(*providers: Mapping[str, object], **sections: object) -> dict[str, object]:
    """A document with these providers (else one named `only`) and sections."""
    return {"version": "1.0", "providers": list(providers or [a_provider("only")]), **sections}


def a_provider(name: str, weight: float = 100, **fields: object) -> dict[str, object]:
    return {"name": name, "weight": weight, **fields}


def a_rule(to: str, when: object, retry: int = 0) -> dict[str, object]:
    return {"when": when, "retry": retry, "to": to}


def a_policy(
    *providers: Mapping[str, object],
    tenant: str = "acme",
    policy_id: str = "default",
    version: int = 1,
    **sections: object,
) -> Policy:
    return parse_policy(a_document(*providers, **sections), tenant, policy_id, version).policy


def a_request(
    key: str = "r-1",
    tenant: str = "acme",
    *,
    limits: Mapping[str, object] | None = None,
    **context: object,
) -> RouteRequest:
    return RouteRequest(
        tenant_id=tenant,
        message_type="chat",
        payload=RawJson.encode({"text": "hi"}),
        request_key=key,
        answer_id=key,
        context=context,
        constraints=limits or {},
    )


def errors_of(
    document: object, tenant: str = "acme", policy_id: str = "default"
) -> list[tuple[str, str]]:
    """What is wrong with a document; empty if nothing is."""
    try:
        parse_policy(document, tenant, policy_id)
    except PolicyError as exc:
        return list(exc.errors)
    return []


def decide(
    policy: Policy,
    request: RouteRequest | None = None,
    *,
    states: Mapping[str, ProviderState] = NO_STATES,
    now: float = 0.0,
    **known: object,
) -> tuple[str, str, int]:
    """Provider, reason and priority of a decision; code, reason and 0 of a refusal."""
    answer: Decision | Refusal = evaluate(
        policy, request or a_request(), states=states, now=now, **known
    )  # type: ignore[arg-type]
    if isinstance(answer, Refusal):
        return answer.code, str((answer.details or {})["reason"]), 0
    return answer.provider_id, answer.reason, answer.priority


SHUT = ProviderState(blocked_until=100.0)  # its breaker is open at the `now` of `decide`
