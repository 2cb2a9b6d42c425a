"""The stored assignments: their bucket with the cache of this process in front of it, and the acks
of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from router.contracts.ack import ExecAssignmentAck
from router.contracts.assignment import Assignment
from router.contracts.assignment_record import assignment_ack_bytes, assignment_ack_key, read_record
from router.core.deferred import Deferred
from router.core.errors import Poison
from router.core.ids import bucket_prefix
from router.decide.model import NewAssignment
from router.delivery.kv.record_creator import RecordCreator
from router.delivery.kv.write_once import WriteOnceKv
from router.delivery.wire.api import JetStream
from router.work.model import AssignmentCache


class AssignmentStore:
    """`decide.model.push.AssignmentBucket` over the bucket; a new assignment goes into the cache,
    so that its result needs no lookup.

    `on_assigned` gets tenant, provider and id of each assignment that this instance has stored.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        known: AssignmentCache,
        on_assigned: Callable[[str, str, str], None] = lambda *_: None,
    ) -> None:
        records = WriteOnceKv(jetstream, bucket)
        self._records = records
        self._creator = RecordCreator(jetstream, records)
        self._known = known
        self._on_assigned = on_assigned

    async def find(self, key: str) -> bytes | None:
        return await self._records.find(key)

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        created = self._creator.create(key, new.data)
        created.add_callback(lambda stored: self._keep(stored, new))
        return created

    def _keep(self, stored: bytes | BaseException, new: NewAssignment) -> None:
        if stored == new.data:
            self._known.keep(new.known)
            self._on_assigned(new.known.tenant_id, new.known.provider_id, new.known.assignment_id)
        elif isinstance(stored, bytes):
            with suppress(Poison):  # the caller reads it too, and says so
                self._known.keep(read_record(stored).read_assignment())


class AssignmentAckStore:
    """`acks.AssignmentStates`: stores the newest ack of a known assignment, which `router
    assignments` shows.

    Published without waiting, because no decision depends on it. The ack of an unknown assignment
    is not stored, so that workers cannot fill the bucket.
    """

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self._connection = jetstream.connection
        self._prefix = jetstream.write_subject(bucket_prefix(bucket))

    def on_ack(self, ack: ExecAssignmentAck, known: Assignment | None) -> None:
        if known is not None:
            self._connection.publish_nowait(
                self._prefix + assignment_ack_key(ack.assignment_id), assignment_ack_bytes(ack)
            )
