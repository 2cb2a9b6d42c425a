"""Counts answers to decide requests that do not come from the handler: refusals, overload,
failures.
"""

from __future__ import annotations

from router.contracts.decision import CANNOT_BE_STORED, INTERNAL, INVALID_REQUEST, UNAUTHORIZED
from router.contracts.extract import extract_ids
from router.contracts.headers import TENANT_ID
from router.contracts.malformed import TENANT_FORBIDDEN, VALIDATION_CODES
from router.core.message import Message
from router.core.outcome import Dead, Outcome
from router.delivery.consume.settlement import BUCKET_REFUSES, STREAM_REFUSES, TOO_LARGE
from router.process.observability import Metrics

NEVER_STORED_CODES = frozenset({TOO_LARGE, STREAM_REFUSES, BUCKET_REFUSES})


def count_answer(metrics: Metrics, tenant_id: str, outcome: str, count: int = 1) -> None:
    """Count answers without a decision or policy; a tenant without a label of its own is `other`."""
    metrics.decisions[metrics.tenant[tenant_id], "", "", "", outcome] += count


def count_failed(metrics: Metrics, message: Message, outcome: Outcome) -> None:
    """Count the answer to a message that became a dead letter."""
    count_answer(metrics, _tenant_of(message, outcome), _code_of(outcome))


def _code_of(outcome: Outcome) -> str:
    if not isinstance(outcome, Dead):
        return INTERNAL
    if outcome.fault.code == TENANT_FORBIDDEN:
        return UNAUTHORIZED
    if outcome.fault.code in NEVER_STORED_CODES:
        return CANNOT_BE_STORED
    return INVALID_REQUEST if outcome.fault.code in VALIDATION_CODES else INTERNAL


def _tenant_of(message: Message, outcome: Outcome) -> str:
    """The tenant that the refusal names; after any other failure it is read from the message again."""
    if isinstance(outcome, Dead) and outcome.reply is not None:
        return outcome.reply.tenant_id or ""
    return extract_ids(message).get(TENANT_ID, "")
