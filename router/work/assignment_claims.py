"""Which attempt of an invocation is the bill of its assignment: the first of all instances
(docs/reference/extensions.md#covered).

    claim      before the call: the first attempt has the key; every further one has an identity of
               its own
    release    it reached no provider: the next attempt may have it
    reported   its worker's result came: no attempt may have the key from now on. A key of its own,
               which `report_marks` writes
    end        the attempt that has it did not end well: it is billed by itself, and the first one
               that ends well may have the key
    take_over  an attempt that ended well, where the one that has the key did not, or never ended:
               its router died

Each write names the revision that it replaces, so no attempt takes the key from another one that
has it by now. A claim whose caller is cancelled, or whose publish ack is lost, may be stored, and
its attempt is never made: it is given back in the background. The worker's result has the identity
of the assignment too, so it is the duplicate of the attempt that has the key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from router.contracts.assignment import Assignment
from router.contracts.assignment_record import (
    invoked_key,
    read_unmarked,
    reported_key,
    unmarked_key,
)
from router.core.errors import BrokerUnavailable, Conflict, RouterError, StorageFull
from router.core.ids import bucket_prefix
from router.delivery.kv.documents import EXPECTED, PURGE, DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.record_creator import WriteOnceKv
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import head_of
from router.work.model.invocation_record import InvocationRecord

ENDED = b"ended"  # in place of an attempt
GIVE_BACK_EVERY_S = 0.2
LAST_S = 1.0  # when the process stops
YOUNG = 0.75  # of the duplicate window; the rest is for an event that is stored late
# claims of which it is not known whether they are stored: of all tenants, of each
MAX_UNSURE, SHARE = 10_000, 1_000


class AssignmentClaims:
    """`assignments`, `invocations`: the buckets; `window_s`: the duplicate window of the usage
    stream.

    `may_claim`, `claim`, `is_reported`, `has` and `take_over` raise BrokerUnavailable.
    """

    def __init__(
        self, jetstream: JetStream, assignments: str, invocations: str, *, window_s: float
    ) -> None:
        self._jetstream = jetstream
        self._claims = WriteOnceKv(jetstream, assignments)
        self._records = DocumentBucket(jetstream, invocations)
        self._young_ms = window_s * 1000 * YOUNG
        self._prefix = jetstream.write_subject(bucket_prefix(assignments))
        self.unsure: dict[tuple[str, str], None] = {}  # assignment and attempt, the oldest first
        self._unsure_of: Counter[str] = Counter()  # by tenant

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """For the duration of the block claims that are in doubt are given back."""
        giving_back = asyncio.create_task(self._give_back_unsure())
        try:
            yield
        finally:
            giving_back.cancel()
            with suppress(RouterError, TimeoutError):
                async with asyncio.timeout(LAST_S):
                    await self._give_back_all()

    async def claim(self, assignment_id: str, attempt: str) -> int | None:
        """The claim's revision, if this attempt, the key of its record, is the first. StorageFull.
        Ask `may_claim` before.
        """
        try:
            created = await self._claims.try_create(invoked_key(assignment_id), attempt.encode())
        except (asyncio.CancelledError, BrokerUnavailable):
            self._doubt(assignment_id, attempt)
            raise
        return _find_own(created, attempt)

    async def may_claim(self, assignment: Assignment, deadline_ms: int) -> bool:
        """Whether an attempt that ends by this deadline may be the bill: no worker has reported
        that the stream may not know any more.

        Where an assignment is young, each of its reports is a duplicate of the attempt in the
        stream, marked or not.
        """
        if await self.is_reported(assignment.assignment_id):
            return False
        return (
            deadline_ms - assignment.requested_at_ms <= self._young_ms
            or not await self._has_note(assignment)
        )

    async def _has_note(self, assignment: Assignment) -> bool:
        """Whether its worker may have reported when no instance knew that its provider can be
        invoked.
        """
        note = await self._claims.find(unmarked_key(assignment.tenant_id, assignment.provider_id))
        return note is not None and assignment.requested_at_ms <= read_unmarked(note)

    async def is_reported(self, assignment_id: str) -> bool:
        """Whether its worker has reported: then no attempt may claim it."""
        return await self._claims.find(reported_key(assignment_id)) is not None

    async def has(self, record: InvocationRecord) -> bool:
        """Whether the attempt is its assignment's bill."""
        if record.assignment_id is None:
            return False
        return await self._claims.find(invoked_key(record.assignment_id)) == record.key.encode()

    async def end(self, assignment_id: str, attempt: str) -> None:
        """By the attempt that had it first, unless another one took it over. Where it cannot be
        written now, it is given back later.
        """
        try:
            entry = await self._claims.get(invoked_key(assignment_id))
            if entry is not None and entry.value == attempt.encode():
                with suppress(Conflict):
                    await self._claims.put(entry.key, ENDED, revision=entry.revision)
        except (BrokerUnavailable, StorageFull):
            self._doubt(assignment_id, attempt)

    def release(self, assignment_id: str, revision: int) -> None:
        """By the attempt that claimed it at this revision; nothing where another one has the key
        since.

        Not waited for. Where this is lost, the assignment is billed by its worker's result.
        """
        head = head_of({**PURGE, EXPECTED: str(revision)})
        self._jetstream.connection.publish_nowait(
            self._prefix + invoked_key(assignment_id), b"", "", head
        )

    async def take_over(self, assignment_id: str, attempt: str) -> bool:
        """Whether the attempt has the key afterwards. An attempt that ended well has no record any
        more, and keeps the key.
        """
        entry = await self._claims.get(invoked_key(assignment_id))
        if entry is None or await self.is_reported(assignment_id):
            return False
        if (
            entry.value != ENDED
            and await self._records.get(entry.value.decode("ascii", "replace")) is None
        ):
            return False
        try:
            await self._claims.put(entry.key, attempt.encode(), revision=entry.revision)
        except Conflict:
            return False
        return True

    def _doubt(self, assignment_id: str, attempt: str) -> None:
        """Beyond the bound these assignments are billed by their results."""
        tenant, place = _find_tenant(attempt), (assignment_id, attempt)
        if (
            place not in self.unsure
            and len(self.unsure) < MAX_UNSURE
            and self._unsure_of[tenant] < SHARE
        ):
            self.unsure[place] = None
            self._unsure_of[tenant] += 1

    async def _give_back_unsure(self) -> None:
        while True:
            await asyncio.sleep(GIVE_BACK_EVERY_S)
            with suppress(RouterError):
                await self._give_back_all()

    async def _give_back_all(self) -> None:
        for assignment_id, attempt in list(self.unsure):
            await self._give_back(assignment_id, attempt)
            del self.unsure[assignment_id, attempt]
            self._unsure_of -= Counter([_find_tenant(attempt)])

    async def _give_back(self, assignment_id: str, attempt: str) -> None:
        # Written, and not only read: a write comes after the one of the claim, which may still be
        # under way.
        key = invoked_key(assignment_id)
        revision = _find_own(await self._claims.try_create(key, ENDED), attempt)
        if revision is not None:
            with suppress(Conflict):  # another attempt has taken it over
                await self._claims.purge(key, revision=revision)


def _find_tenant(attempt: str) -> str:
    """As the key of an attempt's record has it."""
    return attempt.rpartition(".")[0]


def _find_own(created: int | BucketEntry, attempt: str) -> int | None:
    """The revision of a key that was free, or that the attempt has; None where another one has it."""
    if isinstance(created, int):
        return created
    return created.revision if created.value == attempt.encode() else None
