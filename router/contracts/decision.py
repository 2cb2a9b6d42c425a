"""A decide request as one RouteRequest, whatever form it came in, and its answer: a Decision or a
Refusal (docs/reference/contracts.md#answers).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from router.contracts.raw_json import RawJson

NO_METADATA: Mapping[str, str] = MappingProxyType({})
# in the metadata of a decision that a pipeline surrounded
EXECUTED_EXTENSIONS = "executed_extensions"
# in the metadata of a decision by another policy, because a budget had no room
DOWNGRADED_BY = "downgraded_by"
# in that of a candidate that names them: what its provider is asked with, which only a policy says
OF_CANDIDATE = frozenset({"model", "parameters"})

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


# -- One RouteRequest: what every accepted form of a decide request becomes before anything else
# sees it.
#
# Rule: docs/reference/contracts.md#decide-requests.


NOTHING: Mapping[str, object] = MappingProxyType({})
NO_HINTS: Mapping[str, str] = MappingProxyType({})
MAX_REFERENCE = 4096  # characters of a payload_ref
MAX_IDEMPOTENCY_KEY = 256  # characters
# the constraints that the engine reads; any other is only read by a policy's conditions
CONSTRAINTS = frozenset({"max_latency_ms", "max_cost", "providers", "excluded_providers"})
MAX_NAMED_PROVIDERS = 64  # in one of the two lists
ADJUSTMENT_TYPE = "usage.adjustment"  # the event_type of every adjustment, and of nothing else
# of every attempt of an invocation, and of nothing else
INVOKED_TYPE, STREAMED_TYPE = "provider.invoke", "provider.invoke.stream"
# no request, result or job may say one
RESERVED_TYPES = frozenset({ADJUSTMENT_TYPE, INVOKED_TYPE, STREAMED_TYPE})
RESERVED = f"but {ADJUSTMENT_TYPE}, {INVOKED_TYPE} and {STREAMED_TYPE}"
# 1 and 0 are True and False
PUSH_VALUES: dict[object, bool] = {True: True, "true": True, False: False, "false": False}


class RouteRequest(Struct, frozen=True, kw_only=True, gc=False):
    """A valid decide request, whatever form it came in.
    (docs/reference/contracts.md#decide-requests).
    """

    tenant_id: str
    message_type: str
    # any JSON value as it was written; bytes of protobuf or base64 that are not UTF-8
    payload: RawJson | bytes | None = None
    payload_ref: str | None = None
    request_key: str  # what makes it "the same request" within its tenant
    answer_id: str  # `context.request_id` of the answer
    policy_id: str = "default"
    request_id: str | None = None
    message_id: str | None = None
    trace_id: str | None = None
    idempotency_key: str | None = None
    # constraints, metadata, message.metadata, context; the later wins
    context: Mapping[str, object] = NOTHING
    constraints: Mapping[str, object] = NOTHING  # as given; the engine reads CONSTRAINTS of it
    metadata: Mapping[str, object] = NOTHING
    timestamp_ms: int | None = None
    run_id: str | None = None
    flow_id: str | None = None
    step_id: str | None = None
    push_assignment: bool = False
    assignment_subject: str | None = None
    # unknown names that look like known ones, and what was probably meant
    hints: Mapping[str, str] = NO_HINTS
    wants_protobuf: bool = False  # `Accept: application/x-protobuf`
    return_message: bool = False  # the answer says what the pre-processors left of the message
