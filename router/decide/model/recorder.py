"""The last decisions of the recorded tenants, kept so that they can be explained as JSON and
evaluated again.

`DecisionRecorder.evaluate` stands in for the engine's own: the same answer, and for a recorded
tenant a `RecordedDecision` of it in that tenant's ring. Without recorded tenants the handler calls
the engine's function itself, so a request costs nothing more.

What goes into a ring is no secret (`case_bytes`), and it is bounded: so many entries a tenant, so
many bytes an entry, the oldest first out. It is this instance's memory alone, and ends with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Reversible
from itertools import islice
from typing import Protocol

import msgspec
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from router.contracts.decision import NOTHING, Decision, Refusal, RouteRequest
from router.core.clock import Clock, wall
from router.core.masking import mask_secrets
from router.policies.model import (
    NO_STATES,
    SHARED,
    Policy,
    PreviousAttempt,
    ProviderState,
    ProviderStates,
    RecordedDecision,
    Reevaluation,
    evaluate,
    evaluate_shadow,
    is_same_choice,
    list_arms,
    reevaluate,
    select_arm,
)
from router.policies.model.measurements import NO_FIGURES, LearnedFigures

# -- The rings of the recorded tenants.

# providers of a policy without a strategy, whose figures are recorded so that one can be tried
MAX_UNUSED_FIGURES = 50


class Evaluator(Protocol):
    """`policies.model.evaluate`, as live requests call it."""

    def __call__(
        self,
        policy: Policy,
        request: RouteRequest,
        *,
        states: ProviderStates = NO_STATES,
        figures: Mapping[str, LearnedFigures] = NO_FIGURES,
        now: float,
        remembered: str | None = None,
        previous: PreviousAttempt | None = None,
    ) -> Decision | Refusal: ...


class _RecordedCase(Struct, frozen=True, gc=False):
    """A recorded decision as bytes, small and not scanned by the garbage collector, with the ids to
    find it by.
    """

    answer_id: str
    message_id: str | None
    policy_tenant_id: str
    policy_id: str
    case: bytes


class DecisionRecorder:
    """`entries` for each of `tenants`; of a case above `entry_bytes` the context is left out, and
    it says so.
    """

    def __init__(
        self,
        tenants: frozenset[str] = frozenset(),
        entries: int = 1000,
        entry_bytes: int = 16_384,
        today: Clock = wall,
        figures: Callable[[str], Mapping[str, LearnedFigures]] = lambda _: NO_FIGURES,
    ) -> None:
        self._rings: dict[str, deque[_RecordedCase]] = {
            tenant: deque(maxlen=entries) for tenant in tenants
        }
        self._entry_bytes = entry_bytes
        self._today = today
        self._figures = figures

    @property
    def is_on(self) -> bool:
        return bool(self._rings)

    def is_recorded(self, tenant_id: str) -> bool:
        """Whether the tenant is recorded. For `_shared`: whether any tenant is."""
        return tenant_id in self._rings or (tenant_id == SHARED and self.is_on)

    def evaluate(
        self,
        policy: Policy,
        request: RouteRequest,
        *,
        states: ProviderStates = NO_STATES,
        figures: Mapping[str, LearnedFigures] = NO_FIGURES,
        now: float,
        remembered: str | None = None,
        previous: PreviousAttempt | None = None,
    ) -> Decision | Refusal:
        ring = self._rings.get(request.tenant_id)
        if ring is None:
            return evaluate(
                policy,
                request,
                states=states,
                figures=figures,
                now=now,
                remembered=remembered,
                previous=previous,
            )
        # before it is decided: what is recorded is what was looked at
        policy_states = _states_of_policy(policy, states)
        # also for weights: another strategy may be tried on it
        learned = _figures_of_policy(policy, self._figures(request.tenant_id))
        answer = evaluate(
            policy,
            request,
            states=policy_states,
            figures=learned,
            now=now,
            remembered=remembered,
            previous=previous,
        )
        shadow = evaluate_shadow(
            policy,
            request,
            states=policy_states,
            figures=learned,
            now=now,
            remembered=remembered,
            previous=previous,
        )
        case = RecordedDecision(
            at_ms=int(self._today() * 1000),
            request=request,
            policy_tenant_id=policy.tenant_id,
            policy_id=policy.policy_id,
            policy_version=policy.version,
            session_key=policy.sticky.session_key if policy.sticky is not None else None,
            states=policy_states,
            figures=learned,
            now=now,
            remembered=remembered,
            previous=previous,
            decision=answer if isinstance(answer, Decision) else None,
            refusal=answer if isinstance(answer, Refusal) else None,
            arm=policy.arm,
            shadow_decision=shadow if isinstance(shadow, Decision) else None,
            shadow_refusal=shadow if isinstance(shadow, Refusal) else None,
        )
        ring.append(self._pack(case))
        return answer

    def find(
        self, tenant_id: str, *, request_id: str | None = None, message_id: str | None = None
    ) -> RecordedDecision | None:
        """The newest case of the tenant's request that went by these ids; at least one is given."""
        for kept in reversed(self._rings.get(tenant_id, ())):
            if request_id in (None, kept.answer_id) and message_id in (None, kept.message_id):
                return read_case(kept.case)
        return None

    def list_latest(self, tenant_id: str, policy_id: str, count: int) -> Iterator[RecordedDecision]:
        """The newest `count` cases that a policy stored under these ids would have met, newest
        first.

        Of a tenant: its requests by that policy's name, also when a shared one answered them. Of
        `_shared`: every recorded tenant's that the shared one answered, one tenant after the other:
        sort them, if there are several.
        """
        if tenant_id == SHARED:
            cases = [
                case
                for ring in self._rings.values()
                for case in islice(_iterate_policy(ring, policy_id, SHARED), count)
            ]
        else:
            cases = list(islice(_iterate_policy(self._rings.get(tenant_id, ()), policy_id), count))
        return map(read_case, cases)  # read as they are asked for; the ring may move on meanwhile

    def _pack(self, case: RecordedDecision) -> _RecordedCase:
        request = case.request
        return _RecordedCase(
            request.answer_id,
            request.message_id,
            case.policy_tenant_id,
            case.policy_id,
            case_bytes(case, self._entry_bytes),
        )


def _iterate_policy(
    ring: Reversible[_RecordedCase], policy_id: str, policy_tenant_id: str | None = None
) -> Iterator[bytes]:
    for kept in reversed(ring):
        if kept.policy_id == policy_id and policy_tenant_id in (None, kept.policy_tenant_id):
            yield kept.case


def _states_of_policy(policy: Policy, states: ProviderStates) -> Mapping[str, ProviderState]:
    """What was known of those whom the policy names."""
    if states is NO_STATES:
        return NO_STATES
    names = {name for arm in list_arms((policy,)) for name, _ in arm.plan.decisions}
    return {name: state for name in names if (state := states.get(name)) is not None}


def _figures_of_policy(
    policy: Policy, figures: Mapping[str, LearnedFigures]
) -> Mapping[str, LearnedFigures]:
    """What was learned of those among which the policy draws; a copy, because they change. Of very
    many only where they decide.
    """
    arms = tuple(list_arms((policy,)))
    if all(arm.strategy is None and len(arm.providers) > MAX_UNUSED_FIGURES for arm in arms):
        return NO_FIGURES
    names = {name for arm in arms for name in arm.plan.providers}
    return (
        {name: learned for name in names if (learned := figures.get(name)) is not None}
        if figures
        else NO_FIGURES
    )


# -- One decision as bytes, without secrets.
#
# It has no payload, and no reference to one: an address may carry a signature. What stands
# under a masked key is hidden (`router.core.masking`). A case that is too large, or holds what
# cannot be written, is kept without its context, and says so: whatever a request holds, its
# decision stands.

_ENCODER = msgspec.json.Encoder(enc_hook=dict)  # a read-only mapping as a dict

read_case = msgspec.json.Decoder(RecordedDecision).decode


def case_bytes(case: RecordedDecision, most: int) -> bytes:
    """Redacted; at most so many bytes where leaving the context out is enough."""
    redacted = replace(case, request=_redact(case.request))
    try:
        data = _ENCODER.encode(redacted)
    except (TypeError, ValueError, RecursionError):
        data = b""
    if 0 < len(data) <= most:
        return data
    return _ENCODER.encode(replace(redacted, request=_drop_context(redacted.request), is_cut=True))


def _redact(request: RouteRequest) -> RouteRequest:
    return replace(
        request,
        payload=None,
        payload_ref=None,
        context=_mask(request.context),
        constraints=_mask(request.constraints),
        metadata=_mask(request.metadata),
    )


def _mask(fields: Mapping[str, object]) -> Mapping[str, object]:
    hidden = mask_secrets(fields) if fields else NOTHING
    return hidden if isinstance(hidden, Mapping) else NOTHING


def _drop_context(request: RouteRequest) -> RouteRequest:
    return replace(request, context=NOTHING, constraints=NOTHING, metadata=NOTHING)


# -- A recorded decision as JSON for operators: its inputs, its answer, and whether a new
# evaluation gives the same answer.
#
# {at_ms, request, policy{tenant_id, policy_id, version}, states, figures?, remembered?, previous?, decision | error,
#  reevaluation{decision | error, is_same, trace[{stage, subject, verdict}], uncertainty?} |
#  reevaluation{unavailable}, shadow{decision | error, is_same}?}
#
# An `uncertainty` says why the record is too little to be sure: a payload or a masked value took
# part.


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
    fields: Fields = {
        "at_ms": case.at_ms,
        "request": encode_request(case.request),
        "policy": _describe_policy(case),
        "states": {
            name: _describe_state(state, case.now) for name, state in sorted(case.states.items())
        },
        "figures": {name: to_builtins(learned) for name, learned in sorted(case.figures.items())}
        or None,
        "remembered": case.remembered,
        "previous": to_builtins(case.previous),
        **encode_answer(case.answer),
        "reevaluation": reevaluation,
        "shadow": _describe_shadow(policy, case),
    }
    return {name: value for name, value in fields.items() if value is not None}


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
    fields = {"open_for_ms": open_for_ms, "latency_ms": state.latency_ms, "cost": state.cost}
    return {name: value for name, value in fields.items() if value is not None}
