"""The answer to a decide request: a Decision or a Refusal (docs/reference/contracts.md#answers)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

NO_METADATA: Mapping[str, str] = MappingProxyType({})
# in the metadata of a decision that a pipeline surrounded
EXECUTED_EXTENSIONS = "executed_extensions"
# in the metadata of a decision by another policy, because a budget had no room
DOWNGRADED_BY = "downgraded_by"

INVALID_REQUEST = "invalid_request"
UNAUTHORIZED = "unauthorized"
POLICY_NOT_FOUND = "policy_not_found"
DECISION_FAILED = "decision_failed"
RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
BUDGET_EXCEEDED = "budget_exceeded"
DEADLINE_EXCEEDED = "deadline_exceeded"
OVERLOADED = "overloaded"
EXPIRED = "expired"
CANNOT_BE_STORED = "cannot_be_stored"
INTERNAL = "internal"
ASSIGNMENT_SKIPPED = "assignment_skipped"  # codes of warnings
UNKNOWN_FIELD = "unknown_field"
MESSAGE_ID_TAKEN = "message_id_taken"  # the cause of an invalid_request


class Decision(Struct, frozen=True):
    """A routing decision: latency in milliseconds, cost in the policy's currency.

    The last two fields stand in no answer and in no assignment: the budgets and the bound of a
    result's cost read them.
    """

    provider_id: str
    reason: str  # sticky | weighted | a strategy's | retry | fallback | circuit_breaker_fallback
    priority: int
    expected_latency_ms: float
    expected_cost: float
    # all strings; policy_id and policy_version are always there
    metadata: Mapping[str, str] = NO_METADATA
    # what `expected_cost` was before results taught it; None: in a decision that was read back
    listed_cost: float | None = None
    samples: int = 0  # successes of which `expected_cost` was learned; 0: it is the policy's


class SkippedAssignment(Struct, frozen=True):
    """Why a decision that was to be pushed has no assignment: a warning in its answer."""

    reason: str  # a label of router_assignments_skipped_total
    message: str


class Refusal(Struct, frozen=True):
    """A routing answer that is an error: answered, never retried, no dead letter
    (docs/reference/contracts.md#failure-refusal).
    """

    code: str
    message: str
    details: Mapping[str, object] | None = None
