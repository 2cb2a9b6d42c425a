"""Compare a worker's message with the assignment that it names: a contradiction is forgery, an unknown assignment is accepted.

Rule: docs/contracts.md#correlation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from router.contracts.assignment import Assignment
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, STAGE_TENANT, TENANT_FORBIDDEN
from router.core.outcome import Fault, Outcome
from router.routing.reports.assignment_lookup import AssignmentLookup

OTHER_TENANT = Fault(TENANT_FORBIDDEN, "The assignment is another tenant's", "tenant_id", STAGE_TENANT)
OTHER_REQUEST = Fault(CORRELATION_FIELDS_INVALID, "The assignment is another request's", "request_id", STAGE_CORRELATION)
OTHER_ASSIGNMENT = Fault(CORRELATION_FIELDS_INVALID, "The assignment has another id", "assignment_id", STAGE_CORRELATION)


def find_contradiction(known: Assignment, *, tenant_id: str | None, request_id: str | None, assignment_id: str | None) -> Fault | None:
    """Return why the message cannot belong to this assignment, or None. Fields that one side leaves out are not compared."""
    if tenant_id is not None and tenant_id != known.tenant_id:
        return OTHER_TENANT
    if assignment_id is not None and assignment_id != known.assignment_id:
        return OTHER_ASSIGNMENT
    if request_id is not None and request_id != known.request_id:
        return OTHER_REQUEST
    return None


def correlate(
    assignments: AssignmentLookup, assignment_id: str | None, conclude: Callable[[Assignment | None], Outcome]
) -> Outcome | Awaitable[Outcome]:
    """Return `conclude` of the assignment with this id, or of None: at once if the cache has it, else as a `Deferred`.

    The `Deferred` ends with BrokerUnavailable while the bucket cannot be reached: then the consumer waits and spends no attempt.
    """
    if assignment_id is None:
        return conclude(None)
    known = assignments.recall(assignment_id)
    return conclude(known) if known is not None else assignments.lookup(assignment_id, conclude)
