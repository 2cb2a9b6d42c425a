"""The known assignments as a port, and a bounded memory in front of the bucket.

    recall   now, without waiting:   the assignment, ABSENT, or UNKNOWN_YET
    lookup   ask the bucket:         the assignment, or None

A hit costs a dictionary look; only a miss is awaited. Both go by the assignment id, the bucket's one key
(`contracts.assignment_record` says why).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol

from cachetools import LRUCache

from router import ids
from router.contracts.assignment import Assignment
from router.contracts.assignment_record import read_record
from router.errors import Poison


class Standing(Enum):
    """What is known of an assignment that is not at hand."""

    ABSENT = "absent"  # it is not in the bucket, as far as this instance has seen
    UNKNOWN_YET = "unknown_yet"  # the bucket must be asked


class KnownAssignments(Protocol):
    """What results and acknowledgements ask. `recall` runs once a message, so it must be cheap."""

    def recall(self, assignment_id: str) -> Assignment | Standing: ...

    async def lookup(self, assignment_id: str) -> Assignment | None:
        """Raises BrokerUnavailable when the bucket cannot be asked."""


class KnownMemory:
    """At most `limit` assignments in front of a bucket, the one unused for longest goes first.

    `fetch` takes a key and gives the stored record or None; it raises BrokerUnavailable. What is absent is not remembered:
    it may be created in the next moment, and a result must not be taken for unknown because an early one was.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[bytes | None]], limit: int = 20_000) -> None:
        self._fetch = fetch
        self._known: LRUCache[str, Assignment] = LRUCache(limit)

    def recall(self, assignment_id: str) -> Assignment | Standing:
        return self._known.get(assignment_id, Standing.UNKNOWN_YET)

    async def lookup(self, assignment_id: str) -> Assignment | None:
        record = await self._fetch(ids.key(assignment_id))
        if record is None:
            return None
        try:
            known = read_record(record).known()
        except Poison:
            return None  # whoever broke the bucket's record must not condemn the worker's result
        self.keep(known)
        return known

    def keep(self, known: Assignment) -> None:
        """Remember one: found in the bucket, or just created by this instance."""
        self._known[known.assignment_id] = known

    def __len__(self) -> int:
        return len(self._known)
