"""The known assignments as a port, and a bounded memory in front of the bucket.

    recall   now, without waiting:   the assignment, or None: the bucket must be asked
    lookup   ask the bucket:         the assignment, or None, later

A hit costs a dictionary look. Both go by the assignment id, the bucket's one key (`contracts.assignment_record` says why).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol, TypeVar

from router import ids
from router.contracts.assignment import Assignment
from router.contracts.assignment_record import read_record
from router.errors import Poison
from router.later import Later
from router.memory import Memory, weight_of

T = TypeVar("T")


class KnownAssignments(Protocol):
    """What results and acknowledgements ask. Both run once a message, so they must be cheap."""

    def recall(self, assignment_id: str) -> Assignment | None: ...

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Later[T]:
        """What `conclude` says of what the bucket holds; it ends with BrokerUnavailable when the bucket cannot be asked."""


class KnownMemory:
    """At most `limit` assignments in front of a bucket, the one unused for longest goes first.

    `fetch` takes a key and gives the stored record or None; it ends with BrokerUnavailable. What is absent is not remembered:
    it may be created in the next moment, and a result must not be taken for unknown because an early one was.
    """

    def __init__(self, fetch: Callable[[str], Later[bytes | None]], limit: int = 20_000) -> None:
        self._fetch = fetch
        self._known: Memory[str, Assignment] = Memory(limit)

    def recall(self, assignment_id: str) -> Assignment | None:
        return self._known.recall(assignment_id, 0.0)

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Later[T]:
        return self._fetch(ids.key(assignment_id)).then(lambda record: conclude(self._read(record)))

    def _read(self, record: bytes | None) -> Assignment | None:
        if record is None:
            return None
        try:
            known = read_record(record).read_assignment()
        except Poison:
            return None  # whoever broke the bucket's record must not condemn the worker's result
        self.keep(known)
        return known

    def keep(self, known: Assignment) -> None:
        """Remember one: found in the bucket, or just created by this instance."""
        self._known.keep(known.assignment_id, known, inf, 0.0, owner=known.tenant_id, weight=weight_of(known.decision.metadata))

    def __len__(self) -> int:
        return len(self._known)
