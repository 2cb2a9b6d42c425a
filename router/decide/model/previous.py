"""A request that follows up an earlier one: `context.previous_request_id` names it, its known assignment says which provider had it.

So a policy's fallback rule can send it to the same provider again while its retries last (docs/reference/policies.md#retry).
"""

from __future__ import annotations

from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.request import RouteRequest
from router.core import ids
from router.policies.model import ATTEMPTS, PreviousAttempt
from router.work.model.assignments import AssignmentLookup

_DIGITS = 4  # more attempts than any rule allows, and a number that is read at once
PREVIOUS_REQUEST = "previous_request_id"


async def find_previous(known: AssignmentLookup, request: RouteRequest) -> PreviousAttempt | None:
    """The previous attempt; None: the request names no assignment of its own tenant. Raises BrokerUnavailable."""
    named = request.context.get(PREVIOUS_REQUEST)
    if not isinstance(named, str) or not ids.is_opaque(named):
        return None
    assignment_id = assignment_id_of(request.tenant_id, named)
    assignment = known.recall(assignment_id) or await known.lookup(assignment_id, _return_same)
    if assignment is None or assignment.tenant_id != request.tenant_id:
        return None
    return PreviousAttempt(assignment.provider_id, _attempts(assignment))


def _attempts(assignment: Assignment) -> int:
    """How often the provider was tried; a first decision has no count. An extension may have written something else there."""
    told = assignment.decision.metadata.get(ATTEMPTS, "1")
    return int(told[:_DIGITS]) if told.isascii() and told.isdigit() else 1


def _return_same(known: Assignment | None) -> Assignment | None:
    return known
