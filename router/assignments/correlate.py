"""What a worker says, held against the assignment that it names: contradicted is forged, unknown is accepted.

Rule: docs/contracts.md#correlation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from router.assignments.known import KnownAssignments
from router.contracts.assignment import Assignment
from router.contracts.malformed import CORRELATION_FIELDS_INVALID, STAGE_CORRELATION, STAGE_TENANT, TENANT_FORBIDDEN
from router.outcome import Fault, Outcome

OTHER_TENANT = Fault(TENANT_FORBIDDEN, "The assignment is another tenant's", "tenant_id", STAGE_TENANT)
OTHER_REQUEST = Fault(CORRELATION_FIELDS_INVALID, "The assignment is another request's", "request_id", STAGE_CORRELATION)
OTHER_ASSIGNMENT = Fault(CORRELATION_FIELDS_INVALID, "The assignment has another id", "assignment_id", STAGE_CORRELATION)


def contradiction(known: Assignment, *, tenant_id: str | None, request_id: str | None, assignment_id: str | None) -> Fault | None:
    """Why this cannot have been said of the known assignment; what one side leaves out is not compared."""
    if tenant_id is not None and tenant_id != known.tenant_id:
        return OTHER_TENANT
    if assignment_id is not None and assignment_id != known.assignment_id:
        return OTHER_ASSIGNMENT
    if request_id is not None and request_id != known.request_id:
        return OTHER_REQUEST
    return None


def correlated(
    assignments: KnownAssignments, assignment_id: str | None, conclude: Callable[[Assignment | None], Outcome]
) -> Outcome | Awaitable[Outcome]:
    """What `conclude` says of the assignment of this id, or of none: at once where it is at hand, else later.

    That ends with BrokerUnavailable while the bucket is away: the lane waits, for the message's attempts are its own.
    """
    if assignment_id is None:
        return conclude(None)
    known = assignments.recall(assignment_id)
    return conclude(known) if known is not None else assignments.lookup(assignment_id, conclude)
