"""Meters attempts of invocations that have no end, because their router was killed
(docs/reference/extensions.md#attempt-record).

    every third of `after_s` ── records whose deadline is over for `after_s` ── is its event stored? ──> the record is deleted
                                                       no: an estimate, under the identity that its router would have used ──┘

Every instance does it, and the stream stores each identity once within its duplicate window. For an
older record, and for one whose assignment another attempt has taken over, the stream is read from
the attempt's begin on: its event may stand under either identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.usage import assignment_identity
from router.core.clock import Clock
from router.core.errors import Poison
from router.delivery.consume.stream_reader import open_reader
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.wire.api import JetStream
from router.process.observability import LogRateLimit, events, logs
from router.work.assignment_claims import AssignmentClaims
from router.work.invocations.attempt_store import AttemptStore
from router.work.model.invocation_record import (
    ATTEMPT_HEADER,
    InvocationRecord,
    make_unfinished_event,
    read_record,
)

log = logs.logger(__name__)

AT_ONCE = 500  # records of one round
BATCH = 1_000


class UnfinishedAttempt(Struct, frozen=True):
    """A record that is due, and its sequence. `is_bill`: it still has the claim of its assignment."""

    record: InvocationRecord
    sequence: int
    is_bill: bool = False

    @property
    def has_lost(self) -> bool:
        """Whether another attempt may be the bill of its assignment."""
        return self.record.assignment_id is not None and not self.is_bill


class KnownEvents(Struct, frozen=True):
    """What the usage stream holds since some attempts began: the attempt that each identity was
    stored by, "" for a worker's word.

    `sequences`: of the events.
    """

    attempts: dict[str, str]
    sequences: dict[str, int]

    def find(self, record: InvocationRecord) -> int | None:
        """The sequence of this attempt's event."""
        own, bill = self.sequences.get(record.event_id), find_bill(record)
        return (
            own
            if own is not None or self.attempts.get(bill) != record.attempt_id
            else self.sequences[bill]
        )

    def has_other_bill(self, record: InvocationRecord) -> bool:
        return self.attempts.get(find_bill(record), record.attempt_id) != record.attempt_id


class UnfinishedInvocations:
    """`stream`: of usage events; `window_s`: its duplicate window. `clock`: the server's."""

    def __init__(  # noqa: PLR0917 - `SupervisionTree` joins them
        self,
        jetstream: JetStream,
        bucket: str,
        stream: str,
        store: AttemptStore,
        claims: AssignmentClaims,
        clock: Clock,
        *,
        after_s: float,
        window_s: float,
    ) -> None:
        self._jetstream = jetstream
        self._records = DocumentBucket(jetstream, bucket)
        self._stream = stream
        self._store = store
        self._claims = claims
        self._clock = clock
        self._after_s = after_s
        self._window_s = window_s
        self._lines = LogRateLimit(every_s=60.0)

    async def run(self) -> None:
        """A helper of the tree: until cancelled."""
        async with self._store.open():
            while True:
                await asyncio.sleep(self._after_s / 3)
                await self.meter_due()

    async def meter_due(self) -> None:
        """Meter what is due now. Raises BrokerUnavailable."""
        info = await self._jetstream.stream(f"KV_{self._records.bucket}")
        if info is None or not info["state"]["messages"]:
            return
        due = self._list_due((await self._records.read_all()).values())
        due = [replace(attempt, is_bill=await self._claims.has(attempt.record)) for attempt in due]
        known_events = await self._find_known(
            [attempt.record for attempt in due if attempt.has_lost or self._is_old(attempt.record)]
        )
        for attempt in due:
            place = known_events.find(attempt.record)
            is_told = (
                self._meter(attempt, known_events)
                if place is None
                else self._tell_held(attempt.record, place)
            )
            if await is_told:
                self._store.forget(attempt.sequence)

    async def _tell_held(self, record: InvocationRecord, sequence: int) -> bool:
        """Its event stands. Its router may have died between that and the notice of what is held of
        its cost.
        """
        stored = await self._store.read_stored(
            self._stream, sequence, make_unfinished_event(record)
        )
        return stored is not None and await self._store.tell_held(record, stored)

    def _is_old(self, record: InvocationRecord) -> bool:
        return self._clock() - record.begun_ms / 1000 > self._window_s / 2

    def _list_due(self, entries: Iterable[BucketEntry]) -> list[UnfinishedAttempt]:
        """Those that are due longest come first."""
        limit_ms = (self._clock() - self._after_s) * 1000
        attempts = [
            UnfinishedAttempt(record, entry.revision)
            for entry in entries
            if (record := self._read(entry)) is not None
        ]
        due = [attempt for attempt in attempts if attempt.record.deadline_ms < limit_ms]
        return sorted(due, key=lambda attempt: attempt.record.deadline_ms)[:AT_ONCE]

    def _read(self, entry: BucketEntry) -> InvocationRecord | None:
        try:
            return read_record(entry.value)
        except Poison:
            if self._lines.allow("read"):
                log.error(events.INVOCATION_UNREADABLE, key=entry.key)
            return None

    async def _meter(self, attempt: UnfinishedAttempt, known_events: KnownEvents) -> bool:
        # What has lost its assignment may have the reservation of it, which ends once: with the
        # bill.
        record, is_of_assignment = attempt.record, attempt.record.assignment_id is not None
        has_other_bill = is_of_assignment and (
            known_events.has_other_bill(record) or attempt.has_lost
        )
        event = make_unfinished_event(record)
        is_stored = await self._store.meter(
            record, event, is_bill=is_of_assignment, has_other_bill=has_other_bill
        )
        if is_stored and self._lines.allow("estimated"):
            log.warning(
                events.INVOCATION_ESTIMATED, tenant=record.tenant_id, provider=record.provider_id
            )
        return is_stored

    async def _find_known(self, records: Sequence[InvocationRecord]) -> KnownEvents:
        """The stream would take a second event of these attempts: beyond its duplicate window, or
        under the other identity.
        """
        known_events = KnownEvents({}, {})
        if not records:
            return known_events
        wanted = {
            identity for record in records for identity in (record.event_id, find_bill(record))
        }
        since = datetime.fromtimestamp(min(record.begun_ms for record in records) / 1000 - 1, UTC)
        async with open_reader(
            self._jetstream, self._stream, headers_only=True, since=since
        ) as reader:
            while batch := await reader.read(BATCH):
                for stored in batch:
                    if (identity := stored.headers.get("Nats-Msg-Id", "")) in wanted:
                        known_events.attempts.setdefault(
                            identity, stored.headers.get(ATTEMPT_HEADER, "")
                        )
                        known_events.sequences.setdefault(identity, stored.sequence)
        return known_events


def find_bill(record: InvocationRecord) -> str:
    """The identity of its assignment's bill; "" where it is for none."""
    return (
        assignment_identity(record.tenant_id, record.assignment_id)
        if record.assignment_id is not None
        else ""
    )
