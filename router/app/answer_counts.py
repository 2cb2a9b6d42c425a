"""Answers to decide requests that the handler does not give, counted by their outcome beside those that it gives."""

from __future__ import annotations

from router.contracts.decision import INTERNAL, INVALID_REQUEST, UNAUTHORIZED
from router.contracts.extract import extract_ids
from router.contracts.headers import TENANT_ID
from router.contracts.malformed import TENANT_FORBIDDEN, VALIDATION_CODES
from router.message import Message
from router.observability import Metrics
from router.outcome import Dead, Outcome


def count_answer(metrics: Metrics, tenant_id: str, outcome: str, count: int = 1) -> None:
    """Answers without a decision and without a policy; a tenant without a label of its own is `other`."""
    metrics.decisions[metrics.tenant[tenant_id], "", "", "", outcome] += count


def count_failed(metrics: Metrics, message: Message, outcome: Outcome) -> None:
    """The answer to a message that was given up, or can never be decided."""
    count_answer(metrics, _tenant_of(message, outcome), _code_of(outcome))


def _code_of(outcome: Outcome) -> str:
    if not isinstance(outcome, Dead):
        return INTERNAL
    if outcome.fault.code == TENANT_FORBIDDEN:
        return UNAUTHORIZED
    return INVALID_REQUEST if outcome.fault.code in VALIDATION_CODES else INTERNAL


def _tenant_of(message: Message, outcome: Outcome) -> str:
    """The refusal names it; what failed otherwise is read once more."""
    if isinstance(outcome, Dead) and outcome.reply is not None:
        return outcome.reply.headers.get(TENANT_ID, "")
    return extract_ids(message).get(TENANT_ID, "")
