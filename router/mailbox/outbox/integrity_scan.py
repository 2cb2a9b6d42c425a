"""Check that the stream still holds each acknowledged event: read by sequence, newest first, one
step now and then.

A killed server reads its blocks again and cuts off what is damaged; `broker_loss` sees that. A
server that was stopped in order trusts its own index: it still counts a block that rotted
meanwhile, reports no hole, and only a reader finds the message missing. So after every reconnect
this scan reads everything that was acknowledged once, headers only.

It is a child of its own beside the relay, so that no step delays publishing. A step takes a bounded
time (`find_missing`), then the scan rests nine times as long. It logs a failure once for each kind
and tries again a minute later. It needs the rights of `broker_loss`, STREAM.INFO and
STREAM.MSG.GET, and CONSUMER.CREATE, MSG.NEXT and DELETE on the events' stream. A role without them
publishes as before, but does not see what rotted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct, field

from router.core.clock import Clock, steady
from router.core.errors import RouterError
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.mailbox.outbox.broker_loss import (
    SELECT_NEWEST,
    PublishAckRow,
    StreamSnapshot,
    is_at,
    read_stream_snapshot,
    reset_rows,
)
from router.mailbox.postgres import Database
from router.process.observability import events, logs

# -- The scan.

log = logs.logger(__name__)

ACK_ROWS_PER_QUERY: Final = 20  # ack rows in one query
EVENTS_PER_STEP: Final = 1000  # events checked in one step; an ack row has no more than that
SHARE: Final = 10  # a step is followed by a rest of nine times as long
SCAN_RETRY_S: Final = 60.0  # after a failure
NEWEST_FIRST: Final = (1 << 62, 0)  # above every ack row


class ScanCursor(Struct):
    """The position of one scan through the ack rows."""

    # the last ack row that was read; None: there are no more
    before: tuple[int, int] | None = NEWEST_FIRST
    due: list[PublishAckRow] = field(default_factory=list)  # read and not yet checked

    @property
    def is_over(self) -> bool:
        return self.before is None and not self.due


class IntegrityScan:
    """The scan of one relay. `run` is a supervised child; `on_lost` gets the number of rows that
    are to be published again.
    """

    def __init__(
        self,
        database: Database,
        jetstream: JetStream,
        stream: str,
        on_lost: Callable[[int], None],
        *,
        clock: Clock = steady,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._jetstream = jetstream
        self._stream = stream
        self._on_lost = on_lost
        self._clock = clock
        self._sleep = sleep
        self._cursor = ScanCursor(before=None)
        self._has_work = asyncio.Event()
        self._trouble: str | None = None  # the kind of the last failure
        self.read = 0  # events that were checked

    def restart(self) -> None:
        """Start again from the newest ack row."""
        self._cursor = ScanCursor()
        self._has_work.set()

    async def run(self) -> None:
        """Run step by step while ack rows are left; then wait for `restart`."""
        while True:
            await self._has_work.wait()
            since = self._clock()
            went_well = await self._try_step()
            await self._sleep((SHARE - 1) * (self._clock() - since) if went_well else SCAN_RETRY_S)

    async def step(self) -> None:
        """Check the next ack rows, EVENTS_PER_STEP events together. Raises BrokerUnavailable,
        BrokerRefused, DatabaseUnavailable.
        """
        cursor = self._cursor  # `restart` may replace it meanwhile
        if not cursor.due and cursor.before is not None:
            await self._find(cursor, cursor.before)
        some = _take_first(cursor.due)
        if some and (lost := await self._take_back(some)):
            self._on_lost(lost)
        del cursor.due[: len(some)]
        if self._cursor.is_over:
            self._has_work.clear()

    async def _try_step(self) -> bool:
        try:
            await self.step()
        except Exception as exc:
            # of any kind: a failure of the scan must not reach the relay's supervisor
            self._tell(exc)
            return False
        self._trouble = None
        return True

    def _tell(self, exc: Exception) -> None:
        kind = type(exc).__name__  # not the text: it names a reader, which differs each time
        if kind != self._trouble:
            self._trouble = kind
            log.warning(
                events.OUTBOX_INTEGRITY_SCAN_FAILED,
                stream=self._stream,
                cause=str(exc) if isinstance(exc, RouterError) else kind,
            )

    async def _find(self, cursor: ScanCursor, before: tuple[int, int]) -> None:
        async with self._database.transaction() as session:
            cursor.due = await session.fetch(
                SELECT_NEWEST, (self._stream, *before, ACK_ROWS_PER_QUERY), make=PublishAckRow
            )
        cursor.before = (
            (max(cursor.due[-1].sequences), cursor.due[-1].id)
            if len(cursor.due) == ACK_ROWS_PER_QUERY
            else None
        )

    async def _take_back(self, ack_rows: list[PublishAckRow]) -> int:
        snapshot = await read_stream_snapshot(self._jetstream, self._stream, with_holes=False)
        wanted = _places(ack_rows, snapshot)
        self.read += len(wanted)
        gone = await find_missing(self._jetstream, snapshot, wanted)
        if not gone:
            return 0
        snapshot = await read_stream_snapshot(
            self._jetstream, self._stream, with_holes=False
        )  # an event that expired meanwhile is not lost
        gone &= _places(ack_rows, snapshot).keys()
        async with self._database.transaction() as session:
            return sum(
                [
                    await reset_rows(session, snapshot, ack_row, gone)
                    for ack_row in _select_current(snapshot, ack_rows)
                ]
            )


def _take_first(due: list[PublishAckRow]) -> list[PublishAckRow]:
    """Return the first ack rows that have EVENTS_PER_STEP events together, and at least one."""
    count, events_of_them = 0, 0
    for ack_row in due:
        events_of_them += len(ack_row.sequences)
        if count and events_of_them > EVENTS_PER_STEP:
            break
        count += 1
    return due[:count]


def _select_current(snapshot: StreamSnapshot, ack_rows: list[PublishAckRow]) -> list[PublishAckRow]:
    """Return the ack rows of this stream; in an older stream of the same name the sequences mean
    other messages.
    """
    return [ack_row for ack_row in ack_rows if ack_row.stream_created == snapshot.created]


def _places(ack_rows: list[PublishAckRow], snapshot: StreamSnapshot) -> dict[int, UUID]:
    """The sequences at which unexpired events should be."""
    places = [
        place
        for ack_row in _select_current(snapshot, ack_rows)
        for place in zip(ack_row.sequences, ack_row.ids, strict=True)
    ]
    return {sequence: event for sequence, event in places if sequence >= snapshot.first}


# -- Which events are missing from the stream. At most GAP + 1 messages are read for each event,
# so other writers cannot slow it down.
#
# . 2 3 . 5 6 7 . 9      close together: one reader reads their headers
# 900 … 17000            far apart: one request each, and one for each event that a reader did not
# find

# other messages between two neighbours: reading over them is cheaper than a request for each side
GAP: Final = 10
MAX_SINGLE_READS: Final = 20  # fewer events get one request each: a reader costs three requests
HEADERS_PER_READ: Final = 1000  # headers in one read
MAX_CONCURRENT_READS: Final = 10  # requests at once: the server's answer holds the payload, too


async def find_missing(
    jetstream: JetStream, snapshot: StreamSnapshot, wanted: Mapping[int, UUID]
) -> set[int]:
    """Return the sequences that no longer hold their event. Raises BrokerUnavailable,
    BrokerRefused.
    """
    sequences: set[int] = set()
    for first, last in stretches(wanted):
        sequences |= await _read_headers(jetstream, snapshot.name, first, last, wanted)
    odd = [sequence for sequence in wanted if sequence not in sequences]
    missing = set()
    for start in range(0, len(odd), MAX_CONCURRENT_READS):
        some = odd[start : start + MAX_CONCURRENT_READS]
        there = await asyncio.gather(
            *(is_at(jetstream, snapshot, wanted[sequence], sequence) for sequence in some)
        )
        missing |= {
            sequence for sequence, is_there in zip(some, there, strict=True) if not is_there
        }
    return missing


def stretches(sequences: Iterable[int]) -> Sequence[tuple[int, int]]:
    """Group sequences that are close enough for one reader; return the first and last of each
    group.
    """
    runs: list[list[int]] = []
    for sequence in sorted(sequences):
        if not runs or sequence - runs[-1][-1] > GAP + 1:
            runs.append([])
        runs[-1].append(sequence)
    return [(run[0], run[-1]) for run in runs if len(run) >= MAX_SINGLE_READS]


async def _read_headers(
    jetstream: JetStream, stream: str, first: int, last: int, wanted: Mapping[int, UUID]
) -> set[int]:
    """Return the sequences from `first` to `last` that still hold their event; headers of other
    messages are dropped.
    """
    sequences: set[int] = set()
    async with open_reader(jetstream, stream, first, headers_only=True) as reader:
        while first <= last and (
            heads := await reader.read(min(HEADERS_PER_READ, last - first + 1))
        ):
            for head in heads:
                event = wanted.get(head.sequence)
                if event is not None and head.headers.get("Nats-Msg-Id") == str(event):
                    sequences.add(head.sequence)
            first = heads[-1].sequence + 1
    return sequences
