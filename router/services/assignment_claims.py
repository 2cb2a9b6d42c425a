"""Which attempt of an invocation is the bill of its assignment: the first of all instances (docs/reference/extensions.md#covered).

    claim      before the call: the first attempt has the key; every further one has an identity of its own
    release    it reached no provider: the next attempt may have it
    reported   its worker's result came: no attempt may have the key from now on. A key of its own, which no end of an attempt writes
    end        the attempt that has it did not end well: it is billed by itself, and the first one that ends well may have the key
    take_over  an attempt that ended well, where the one that has the key did not, or never ended: its router died

The worker's result has the identity of the assignment too, so it is the duplicate of the attempt that has the key.
"""

from __future__ import annotations

from contextlib import suppress

from router.contracts.assignment_record import invoked_key, reported_key
from router.contracts.invocation_record import InvocationRecord
from router.core.errors import Conflict
from router.core.ids import bucket_prefix
from router.delivery.api import JetStream
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.write_once import WriteOnceKv
from router.delivery.connection import head_of

ENDED = b"ended"  # in place of an attempt
REPORTED = b"reported"
_PURGE = head_of({"KV-Operation": "PURGE", "Nats-Rollup": "sub"})


class AssignmentClaims:
    """`assignments`, `invocations`: the buckets. Everything but `release` raises BrokerUnavailable."""

    def __init__(self, jetstream: JetStream, assignments: str, invocations: str) -> None:
        self._jetstream = jetstream
        self._claims = WriteOnceKv(jetstream, assignments)
        self._records = DocumentBucket(jetstream, invocations)
        self._prefix = jetstream.write_subject(bucket_prefix(assignments))

    async def claim(self, assignment_id: str, attempt: str) -> bool:
        """Whether this attempt, the key of its record, is the first. StorageFull."""
        if await self._is_reported(assignment_id):
            return False
        return await self._claims.create(invoked_key(assignment_id), attempt.encode()) == attempt.encode()

    async def has(self, record: InvocationRecord) -> bool:
        """Whether the attempt is its assignment's bill."""
        if record.assignment_id is None:
            return False
        return await self._claims.find(invoked_key(record.assignment_id)) == record.key.encode()

    def mark_reported(self, assignment_id: str) -> None:
        """Its worker has reported: each invocation that is asked for later has an identity of its own.

        Not waited for. Within the duplicate window of the usage stream the stream tells it too.
        """
        self._jetstream.connection.publish_nowait(self._prefix + reported_key(assignment_id), REPORTED)

    async def end(self, assignment_id: str, attempt: str) -> None:
        """By the attempt that had it first, unless another one took it over. Where this is lost, the assignment is billed by its result."""
        entry = await self._claims.get(invoked_key(assignment_id))
        if entry is not None and entry.value == attempt.encode():
            with suppress(Conflict):
                await self._claims.put(entry.key, ENDED, revision=entry.revision)

    def release(self, assignment_id: str) -> None:
        """By the attempt that has it. Where this is lost, the assignment is billed by its worker's result."""
        self._jetstream.connection.publish_nowait(self._prefix + invoked_key(assignment_id), b"", "", _PURGE)

    async def take_over(self, assignment_id: str, attempt: str) -> bool:
        """Whether the attempt has the key afterwards. An attempt that ended well has no record any more, and keeps the key."""
        entry = await self._claims.get(invoked_key(assignment_id))
        if entry is None or await self._is_reported(assignment_id):
            return False
        if entry.value != ENDED and await self._records.get(entry.value.decode("ascii", "replace")) is None:
            return False
        try:
            await self._claims.put(entry.key, attempt.encode(), revision=entry.revision)
        except Conflict:
            return False
        return True

    async def _is_reported(self, assignment_id: str) -> bool:
        return await self._claims.find(reported_key(assignment_id)) is not None
