"""A recorded decision with every input of `evaluate`, so that it can be evaluated again
(docs/reference/policies.md#decision), also by a candidate policy whose choice is compared.

    RecordedDecision ── reevaluate(policy, case) ──> the answer, the trace, and an uncertainty

A record holds no secret: the payload is left out, and values under masked keys are hidden. So a new
evaluation may read a value that the record does not hold. `uncertainty` says so, and only where the
choice depended on that value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.core.masking import CUT, MASK
from router.policies.model.conditions import OPERATORS
from router.policies.model.engine import evaluate
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.model.narrowed import PreviousAttempt, ProviderState, TraceStep
from router.policies.model.policy import REASONS_BY_STRATEGY, Policy


class RecordedDecision(Struct, frozen=True, kw_only=True):
    """One call of `evaluate`, and what it returned: a decision, or else a refusal."""

    at_ms: int  # wall clock
    request: RouteRequest  # as `evaluate` saw it: after any pre-processor; without payload, masked
    policy_tenant_id: str  # `_shared`, or the request's own
    policy_id: str
    policy_version: int
    session_key: str | None  # the policy's; `remembered` belongs to it
    states: Mapping[str, ProviderState]  # of the policy's providers, where anything was known
    # of the policy's providers, where anything was learned
    figures: Mapping[str, LearnedFigures] = NO_FIGURES
    now: float  # on the clock of `states`, seconds
    remembered: str | None
    previous: PreviousAttempt | None
    decision: Decision | None
    refusal: Refusal | None
    arm: str | None = None  # of a canary: control | candidate
    shadow_decision: Decision | None = None  # what a shadow would have answered
    shadow_refusal: Refusal | None = None
    is_cut: bool = False  # too large: its context, constraints and metadata were not kept

    @property
    def answer(self) -> Decision | Refusal:
        return self.decision or self.refusal or Refusal("internal", "The record holds no answer")

    @property
    def shadow(self) -> Decision | Refusal | None:
        return self.shadow_decision or self.shadow_refusal


class Reevaluation(Struct, frozen=True):
    """The result of a new evaluation. With an `uncertainty` the whole request might have got
    another answer.
    """

    answer: Decision | Refusal
    steps: tuple[TraceStep, ...]
    uncertainty: str | None


def reevaluate(policy: Policy, case: RecordedDecision) -> Reevaluation:
    """Evaluate a recorded decision with a policy: its own version explains it, another version
    compares.
    """
    steps: list[TraceStep] = []
    answer = evaluate(
        policy,
        case.request,
        states=case.states,
        figures=case.figures,
        now=case.now,
        remembered=case.remembered if has_session_key(policy, case.session_key) else None,
        previous=case.previous,
        trace=steps,
    )
    return Reevaluation(answer, tuple(steps), next(_find_uncertainties(policy, case, steps), None))


def is_same_choice(one: Decision | Refusal, other: Decision | Refusal) -> bool:
    """Whether both choose the same provider for the same reason, or refuse with the same code.
    Figures may differ.
    """
    return choice_of(one) == choice_of(other)


def choice_of(answer: Decision | Refusal) -> tuple[str | None, str]:
    """(provider, reason) of a decision, (None, code) of a refusal."""
    return (
        (answer.provider_id, answer.reason) if isinstance(answer, Decision) else (None, answer.code)
    )


def has_session_key(policy: Policy, session_key: str | None) -> bool:
    """Whether a provider that is remembered for a session under this key counts for the policy."""
    return policy.sticky is not None and policy.sticky.session_key == session_key


def _find_uncertainties(
    policy: Policy, case: RecordedDecision, steps: Sequence[TraceStep]
) -> Iterator[str]:
    """Each value that this evaluation read and the record does not hold, as a sentence."""
    if case.is_cut:
        yield "the request was too large to be recorded whole"
    asked = {step.subject for step in steps if step.stage == "fallback"}
    for index, rule in enumerate(policy.fallbacks):
        if (path := f"fallbacks[{index}]") in asked:
            yield from (
                f"{path}.when looks at {name}, which is not recorded"
                for name in find_hidden_paths(case.request, rule.when)
            )
    if policy.sticky is not None and any(step.stage in _BY_STRATEGY for step in steps):
        hidden = find_hidden_paths(case.request, {f"context.{policy.sticky.session_key}": 0})
        yield from (f"the session is drawn by {name}, which is not recorded" for name in hidden)


_BY_STRATEGY = frozenset(reason for reasons in REASONS_BY_STRATEGY.values() for reason in reasons)
NOT_KEPT = ("payload", "payload_ref")  # of a message


def find_hidden_paths(request: RouteRequest, when: Mapping[str, object]) -> Iterator[str]:
    """The paths of `when` whose values are hidden in the masked request, in the order of the
    condition.
    """
    return (path for path in _paths(when) if _is_hidden(request, path.split(".")))


def _paths(when: Mapping[str, object]) -> Iterator[str]:
    for name, value in when.items():
        if name not in OPERATORS:
            yield name
        elif isinstance(value, list):
            yield from (
                str(side["var"]) for side in value if isinstance(side, Mapping) and "var" in side
            )


def _is_hidden(request: RouteRequest, path: Sequence[str]) -> bool:
    match path:
        case ["message", part, *_] if part in NOT_KEPT:
            return True
        case ["message", "metadata", *steps]:
            return _is_masked_at(request.metadata, steps)
        case ["message", *_]:
            return False
        case [("context" | "constraints" | "metadata") as root, *steps]:
            return _is_masked_at(getattr(request, root), steps)
        case _:
            return _is_masked_at(request.context, path)


def _is_masked_at(value: object, steps: Sequence[str]) -> bool:
    for step in steps:
        if not isinstance(value, Mapping):
            break
        value = value.get(step)
    return value in (MASK, CUT)


# -- Compare a candidate policy's choice with a recorded decision: the verdict is about provider
# and reason only.
#
# Each record is drawn with the policy version that decided it. So a candidate with the same
# content changes nothing, and every difference comes from the document, not from the draw. Once
# the candidate is stored, its new version number changes the draw.
#
# A candidate's strategy looks at the figures that were recorded with the decision, also where that
# was made by weight.
#
# Rate limits and extensions are left out: they depend on more than one request and one document.


UNCHANGED = "unchanged"
CHANGED = "changed"
UNCLEAR = "unclear"


class Choice(Struct, frozen=True, omit_defaults=True):
    """The chosen provider and the reason; for a refusal, no provider and its code as the reason."""

    provider: str | None
    reason: str


class ExpectedFigures(Struct, frozen=True):
    """What the chosen provider was expected to take and to cost, by the averages of the moment of
    the decision.
    """

    latency_ms: float
    cost: float


class Comparison(Struct, frozen=True, omit_defaults=True):
    """One recorded decision under a candidate. `uncertainty` says why the verdict is unclear;
    `after` is then only the likeliest choice.
    """

    at_ms: int
    tenant_id: str
    request_id: str
    verdict: str  # unchanged | changed | unclear
    before: Choice
    after: Choice
    uncertainty: str | None = None
    expected_before: ExpectedFigures | None = None  # None: a refusal
    expected_after: ExpectedFigures | None = None


def compare(candidate: Policy, case: RecordedDecision) -> Comparison:
    """Compare one record. Never raises: a candidate that refuses every request is a change like any
    other.
    """
    made = reevaluate(replace(candidate, version=case.policy_version), case)
    same = UNCHANGED if is_same_choice(made.answer, case.answer) else CHANGED
    return Comparison(
        at_ms=case.at_ms,
        tenant_id=case.request.tenant_id,
        request_id=case.request.answer_id,
        verdict=UNCLEAR if made.uncertainty is not None else same,
        before=Choice(*choice_of(case.answer)),
        after=Choice(*choice_of(made.answer)),
        uncertainty=made.uncertainty,
        expected_before=_expect(case.answer),
        expected_after=_expect(made.answer),
    )


def _expect(answer: Decision | Refusal) -> ExpectedFigures | None:
    return (
        ExpectedFigures(answer.expected_latency_ms, answer.expected_cost)
        if isinstance(answer, Decision)
        else None
    )
