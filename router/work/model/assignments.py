"""The lookup of assignments as a port, a bounded cache in front of the bucket, and the comparison
with a worker's message.

A contradiction is forgery, an unknown assignment is accepted
(docs/reference/contracts.md#correlation).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Protocol, TypeVar

from router.contracts.assignment import Assignment
from router.contracts.assignment_record import read_record
from router.contracts.malformed import (
    CORRELATION_FIELDS_INVALID,
    STAGE_CORRELATION,
    STAGE_TENANT,
    TENANT_FORBIDDEN,
)
from router.core import ids
from router.core.bounded_cache import BoundedCache, weight_of
from router.core.deferred import Deferred
from router.core.errors import Poison
from router.core.message import Message
from router.core.outcome import Fault, Outcome

T = TypeVar("T")


class AssignmentLookup(Protocol):
    """What the handlers of results and acknowledgements call once for each message, so it must be
    cheap.
    """

    def recall(self, assignment_id: str) -> Assignment | None: ...

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Deferred[T]:
        """Return `conclude` of what the bucket holds. The `Deferred` ends with BrokerUnavailable if
        the bucket cannot be reached.
        """


class AssignmentCache:
    """At most `limit` assignments in front of a bucket; the least recently used one is dropped
    first.

    `fetch` takes a key and returns the stored record or None; it ends with BrokerUnavailable. An
    absent record is not cached: it may be created in the next moment, and a later result must not
    count as unknown because an early one did.
    """

    def __init__(self, fetch: Callable[[str], Deferred[bytes | None]], limit: int = 20_000) -> None:
        self._fetch = fetch
        self._assignments: BoundedCache[str, Assignment] = BoundedCache(limit)

    def recall(self, assignment_id: str) -> Assignment | None:
        return self._assignments.get(assignment_id, 0.0)

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Deferred[T]:
        return self._fetch(ids.key(assignment_id)).convert(
            lambda record: conclude(self._read(record))
        )

    def _read(self, record: bytes | None) -> Assignment | None:
        if record is None:
            return None
        try:
            assignment = read_record(record).read_assignment()
        except Poison:
            # a record that another program damaged must not condemn the worker's result
            return None
        self.keep(assignment)
        return assignment

    def keep(self, assignment: Assignment) -> None:
        """Add an assignment that the bucket returned, or that this instance has just created."""
        self._assignments.put(
            assignment.assignment_id,
            assignment,
            inf,
            0.0,
            owner=assignment.tenant_id,
            weight=weight_of(assignment.decision.metadata),
        )

    def __len__(self) -> int:
        return len(self._assignments)


OTHER_TENANT = Fault(
    TENANT_FORBIDDEN, "The assignment is another tenant's", "tenant_id", STAGE_TENANT
)
OTHER_REQUEST = Fault(
    CORRELATION_FIELDS_INVALID,
    "The assignment is another request's",
    "request_id",
    STAGE_CORRELATION,
)
OTHER_ASSIGNMENT = Fault(
    CORRELATION_FIELDS_INVALID, "The assignment has another id", "assignment_id", STAGE_CORRELATION
)


def find_contradiction(
    assignment: Assignment,
    *,
    tenant_id: str | None,
    request_id: str | None,
    assignment_id: str | None,
) -> Fault | None:
    """Return why the message cannot belong to this assignment, or None. Fields that one side leaves
    out are not compared.
    """
    if tenant_id is not None and tenant_id != assignment.tenant_id:
        return OTHER_TENANT
    if assignment_id is not None and assignment_id != assignment.assignment_id:
        return OTHER_ASSIGNMENT
    if request_id is not None and request_id != assignment.request_id:
        return OTHER_REQUEST
    return None


def correlate(
    assignments: AssignmentLookup,
    assignment_id: str | None,
    conclude: Callable[[Message, T, Assignment | None], Outcome],
    message: Message,
    read: T,
) -> Outcome | Awaitable[Outcome]:
    """Return `conclude` of the message, of what was read of it, and of the assignment with this id,
    or None: at once if the cache has it, else as a `Deferred`.

    The `Deferred` ends with BrokerUnavailable while the bucket cannot be reached: then the consumer
    waits and spends no attempt.
    """
    assignment = assignments.recall(assignment_id) if assignment_id is not None else None
    if assignment is None and assignment_id is not None:
        return assignments.lookup(assignment_id, partial(conclude, message, read))
    return conclude(message, read, assignment)
