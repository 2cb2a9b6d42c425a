"""What a candidate would have decided, laid beside what was decided: the choice alone.

The draw is held still: each case is drawn with the version that decided it. So a candidate that says the same changes
nothing, and what does change is the document's doing, not the dice's. Once it is put, its new version draws anew.

Rate limits and extensions are left out: neither is a matter of one request and one document.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from router.policy.policy import Policy
from router.policy.reevaluation import RecordedDecision, choice_of, is_same_choice, reevaluate

UNCHANGED = "unchanged"
CHANGED = "changed"
UNCLEAR = "unclear"


class Choice(Struct, frozen=True, omit_defaults=True):
    """Who was chosen and why; of a refusal only its code, as the reason."""

    provider: str | None
    reason: str


class Comparison(Struct, frozen=True, omit_defaults=True):
    """One case under a candidate. `doubt` says why it is unclear; `after` is then only the likeliest."""

    at_ms: int
    tenant_id: str
    request_id: str
    verdict: str  # unchanged | changed | unclear
    before: Choice
    after: Choice
    doubt: str | None = None


def compare(candidate: Policy, case: RecordedDecision) -> Comparison:
    """Never raises: a candidate that refuses everything is a change like any other."""
    made = reevaluate(replace(candidate, version=case.policy_version), case)
    same = UNCHANGED if is_same_choice(made.answer, case.answer) else CHANGED
    return Comparison(
        at_ms=case.at_ms,
        tenant_id=case.request.tenant_id,
        request_id=case.request.answer_id,
        verdict=UNCLEAR if made.doubt is not None else same,
        before=Choice(*choice_of(case.answer)),
        after=Choice(*choice_of(made.answer)),
        doubt=made.doubt,
    )
