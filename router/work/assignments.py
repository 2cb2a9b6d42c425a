"""The stored assignments: their bucket with the cache of this process and the acks of workers,
their list for people, and the removal of finished ones.

An acknowledgement is stored after its assignment, so going downwards it is met first and waits for
its record: one pass, and nothing is asked twice. What was written over leaves a hole, which costs a
question.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct

from router.config import Settings
from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.assignment import Assignment
from router.contracts.assignment_record import (
    ACKNOWLEDGEMENT_SUFFIX,
    OF_INVOCATIONS,
    AssignmentAcknowledgement,
    AssignmentRecord,
    acknowledgement_key,
    read_record,
    read_stored_acknowledgement,
    write_acknowledgement,
)
from router.core import ids
from router.core.deferred import Deferred
from router.core.errors import Poison, RouterError
from router.core.ids import bucket_prefix
from router.decide.model import NewAssignment
from router.delivery.consume.finished import FinishedRemoval
from router.delivery.kv.record_creator import RecordCreator, WriteOnceKv
from router.delivery.wire.api import JetStream, StoredMessage
from router.delivery.wire.shared_info import SharedInfo
from router.process.observability import LogRateLimit, Metrics, events, logs
from router.work.model import AssignmentCache

MAX_CONCURRENT_READS = 64
UNACKNOWLEDGED = "unacknowledged"


class StoredAssignment(Struct, frozen=True):
    """One stored assignment: its record, its content, and a worker's latest acknowledgement."""

    record: AssignmentRecord
    assignment: Assignment
    stored_at: str  # the server's RFC 3339 text
    acknowledgement: AssignmentAcknowledgement | None = None

    @property
    def status(self) -> str:
        return self.acknowledgement.status if self.acknowledgement is not None else UNACKNOWLEDGED

    def known_status(self, *, reads_acknowledgements: bool) -> str | None:
        """The status; None if the router does not listen for acknowledgements, because then a
        missing one means nothing.
        """
        return self.status if self.acknowledgement is not None or reads_acknowledgements else None

    def list_fields(self, *, reads_acknowledgements: bool) -> dict[str, object]:
        """What is known, without the work itself, for programs."""
        assignment, acknowledgement = self.assignment, self.acknowledgement
        fields = {
            "assignment_id": assignment.assignment_id,
            "request_id": assignment.request_id,
            "tenant_id": assignment.tenant_id,
            "trace_id": assignment.trace_id,
            "job": assignment.job_type,
            "provider_id": assignment.provider_id,
            "pushed_at": self.stored_at,
            "status": self.known_status(reads_acknowledgements=reads_acknowledgements),
            "acknowledged_at": datetime.fromtimestamp(acknowledgement.at_ms / 1000, UTC).isoformat()
            if acknowledgement is not None
            else None,
            "message": acknowledgement.message if acknowledgement is not None else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


async def list_assignments(
    jetstream: JetStream,
    bucket: str,
    *,
    tenant: str | None = None,
    status: str | None = None,
    limit: int = 50,
) -> AsyncIterator[StoredAssignment]:
    """At most `limit`, of one tenant or status where asked; none when there is no such bucket.
    Raises BrokerUnavailable.
    """
    acknowledgements: dict[str, AssignmentAcknowledgement] = {}
    given = 0
    async for stored in _read_downwards(jetstream, f"KV_{bucket}"):
        key = stored.subject.removeprefix(ids.bucket_prefix(bucket))
        if key.endswith(ACKNOWLEDGEMENT_SUFFIX):
            if (state := _state(stored)) is not None:
                acknowledgements[key.removesuffix(ACKNOWLEDGEMENT_SUFFIX)] = state
        elif (
            not key.endswith(OF_INVOCATIONS)
            and (stored_assignment := _read_stored(stored, acknowledgements.pop(key, None)))
            is not None
        ):
            if tenant in (None, stored_assignment.assignment.tenant_id) and status in (
                None,
                stored_assignment.status,
            ):
                yield stored_assignment
                given += 1
            if given == limit:
                return


async def find_assignment(
    jetstream: JetStream, bucket: str, assignment_id: str
) -> StoredAssignment | None:
    """The assignment of this id; None: it was never stored, or its time in the bucket is over.
    Raises BrokerUnavailable.
    """
    stored = await jetstream.get_last(
        f"KV_{bucket}", ids.bucket_prefix(bucket) + ids.key(assignment_id)
    )
    if stored is None:
        return None
    said = await jetstream.get_last(
        f"KV_{bucket}", ids.bucket_prefix(bucket) + acknowledgement_key(assignment_id)
    )
    return _read_stored(stored, _state(said) if said is not None else None)


async def _read_downwards(jetstream: JetStream, stream: str) -> AsyncIterator[StoredMessage]:
    info = await jetstream.stream(stream)
    if info is None:
        return
    first, upper = max(info["state"]["first_seq"], 1), info["state"]["last_seq"]
    while upper >= first:
        lower = max(first, upper - MAX_CONCURRENT_READS + 1)
        for stored in await asyncio.gather(
            *(jetstream.message(stream, sequence) for sequence in range(upper, lower - 1, -1))
        ):
            if stored is not None:
                yield stored
        upper = lower - 1


def _read_stored(
    stored: StoredMessage, acknowledgement: AssignmentAcknowledgement | None
) -> StoredAssignment | None:
    """The stored assignment; None: it was deleted, or is not a record."""
    try:
        record = read_record(stored.data)
        return StoredAssignment(record, record.read_assignment(), stored.time, acknowledgement)
    except Poison:
        return None


def _state(stored: StoredMessage) -> AssignmentAcknowledgement | None:
    try:
        return read_stored_acknowledgement(stored.data)
    except Poison:
        return None


# -- The stored assignments: their bucket with the cache of this process in front of it, and the
# acks of workers.


class AssignmentStore:
    """`decide.model.push.AssignmentBucket` over the bucket; a new assignment goes into the cache,
    so that its result needs no lookup.

    `on_assigned` gets tenant, provider and id of each assignment that this instance has stored.
    `takes_batches`: the bucket's stream may be written in atomic batches.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        assignments: AssignmentCache,
        on_assigned: Callable[[str, str, str], None] = lambda *_: None,
        *,
        takes_batches: bool = False,
    ) -> None:
        records = WriteOnceKv(jetstream, bucket)
        self._records = records
        self._creator = RecordCreator(jetstream, records, takes_batches=takes_batches)
        self._assignments = assignments
        self._on_assigned = on_assigned

    async def find(self, key: str) -> bytes | None:
        return await self._records.find(key)

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        created = self._creator.create(key, new.data)
        created.add_callback(partial(self._keep, new))
        return created

    def _keep(self, new: NewAssignment, stored: bytes | BaseException) -> None:
        if stored == new.data:
            self._assignments.keep(new.known)
            self._on_assigned(new.known.tenant_id, new.known.provider_id, new.known.assignment_id)
        elif isinstance(stored, bytes):
            with suppress(Poison):  # the caller reads it too, and says so
                self._assignments.keep(read_record(stored).read_assignment())


class AcknowledgementStore:
    """`acks.AssignmentStates`: stores the newest ack of a known assignment, which `router
    assignments` shows.

    Published without waiting, because no decision depends on it. The ack of an unknown assignment
    is not stored, so that workers cannot fill the bucket.
    """

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self._connection = jetstream.connection
        self._prefix = jetstream.write_subject(bucket_prefix(bucket))

    def on_acknowledgement(
        self, acknowledgement: ExecAssignmentAck, assignment: Assignment | None
    ) -> None:
        if assignment is not None:
            self._connection.publish_nowait(
                self._prefix + acknowledgement_key(acknowledgement.assignment_id),
                write_acknowledgement(acknowledgement),
            )


# -- Removes finished assignments from their stream: which ones, after how long, and what is
# counted and logged.


log = logs.logger(__name__)


def build_finished_removal(
    settings: Settings, jetstream: JetStream, metrics: Metrics, infos: SharedInfo | None = None
) -> FinishedRemoval:
    """The removal, run by a child every `settings.assignment.removal_every_ms`; records stay in the
    bucket.
    """
    seldom = LogRateLimit(every_s=60.0)

    def count(removed: int) -> None:
        metrics.assignments_removed.value += removed

    def tell(exc: RouterError) -> None:
        if seldom.allow("kept"):
            log.warning(
                events.ASSIGNMENTS_KEPT, stream=settings.streams.assignments.name, cause=str(exc)
            )

    return FinishedRemoval(
        jetstream,
        settings.streams.assignments,
        settings.assignment.subjects,
        settings.assignment.removal_every_ms / 1000,
        on_removed=count,
        on_failure=tell,
        infos=infos,
    )
