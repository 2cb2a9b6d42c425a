"""The lookup of assignments as a port, and a bounded cache in front of the bucket.

    recall   at once:   the assignment, or None if the cache does not have it
    lookup   later:     the assignment, or None if the bucket does not have it

A hit costs one look into a dictionary. Both use the assignment id, the bucket's only key (`contracts.assignment_record` says why).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol, TypeVar

from router.contracts.assignment import Assignment
from router.contracts.assignment_record import read_record
from router.core import ids
from router.core.bounded_cache import BoundedCache, weight_of
from router.core.deferred import Deferred
from router.core.errors import Poison

T = TypeVar("T")


class AssignmentLookup(Protocol):
    """What the handlers of results and acknowledgements call once for each message, so it must be cheap."""

    def recall(self, assignment_id: str) -> Assignment | None: ...

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Deferred[T]:
        """Return `conclude` of what the bucket holds. The `Deferred` ends with BrokerUnavailable if the bucket cannot be reached."""


class AssignmentCache:
    """At most `limit` assignments in front of a bucket; the least recently used one is dropped first.

    `fetch` takes a key and returns the stored record or None; it ends with BrokerUnavailable. An absent record is not cached: it may
    be created in the next moment, and a later result must not count as unknown because an early one did.
    """

    def __init__(self, fetch: Callable[[str], Deferred[bytes | None]], limit: int = 20_000) -> None:
        self._fetch = fetch
        self._known: BoundedCache[str, Assignment] = BoundedCache(limit)

    def recall(self, assignment_id: str) -> Assignment | None:
        return self._known.get(assignment_id, 0.0)

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Deferred[T]:
        return self._fetch(ids.key(assignment_id)).map(lambda record: conclude(self._read(record)))

    def _read(self, record: bytes | None) -> Assignment | None:
        if record is None:
            return None
        try:
            known = read_record(record).read_assignment()
        except Poison:
            return None  # a record that another program damaged must not condemn the worker's result
        self.keep(known)
        return known

    def keep(self, known: Assignment) -> None:
        """Add an assignment that the bucket returned, or that this instance has just created."""
        self._known.put(known.assignment_id, known, inf, 0.0, owner=known.tenant_id, weight=weight_of(known.decision.metadata))

    def __len__(self) -> int:
        return len(self._known)
