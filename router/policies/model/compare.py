"""Compare a candidate policy's choice with a recorded decision: the verdict is about provider and
reason only.

Each record is drawn with the policy version that decided it. So a candidate with the same content
changes nothing, and every difference comes from the document, not from the draw. Once the candidate
is stored, its new version number changes the draw.

A candidate's strategy looks at the figures that were recorded with the decision, also where that
was made by weight.

Rate limits and extensions are left out: they depend on more than one request and one document.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.decision import Decision, Refusal
from router.policies.model.policy import Policy
from router.policies.model.reevaluation import (
    RecordedDecision,
    choice_of,
    is_same_choice,
    reevaluate,
)

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
