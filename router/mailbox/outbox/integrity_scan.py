"""Whether each event still stands where the broker acknowledged it: read by sequence, newest first, a step now and then.

A server that was killed reads its blocks again and cuts off what is damaged; `broker_loss` sees that. One that was stopped in order
trusts its own index: a block that rotted meanwhile is still counted, no hole is told, and its message is only found missing
by who reads it. So after every reconnect all that was acknowledged is read once, heads alone.

A child of its own beside the relay, so that no step stands between an event and its publishing: a step takes a bounded time
(`find_missing`) and rests nine times as long; one that fails is told once for each kind of failure and tried again a minute later.
It needs what `broker_loss` needs, STREAM.INFO and STREAM.MSG.GET, and CONSUMER.CREATE, MSG.NEXT and DELETE on the events' stream:
a role without them publishes as before, and what rotted stays unseen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from msgspec import Struct, field

from router.clock import Clock, steady
from router.delivery.api import JetStream
from router.errors import RouterError
from router.mailbox.outbox.broker_loss import NEWEST, ReceiptRow, StreamSnapshot, read_stream_snapshot, reset_rows
from router.mailbox.outbox.missing import find_missing
from router.mailbox.postgres import Database
from router.observability import events, logs

log = logs.logger(__name__)

PAGE: Final = 20  # receipts found at once
MOST: Final = 1000  # events looked for in one step; a receipt has no more than that
SHARE: Final = 10  # a step is followed by a rest of nine times as long
AGAIN_S: Final = 60.0  # after a failure
TOP: Final = (1 << 62, 0)  # above every receipt


class ScanCursor(Struct):
    """One way through the receipts."""

    before: tuple[int, int] | None = TOP  # the last receipt that was found; None: there are no more
    due: list[ReceiptRow] = field(default_factory=list)  # found and not yet looked at

    @property
    def is_over(self) -> bool:
        return self.before is None and not self.due


class IntegrityScan:
    """One relay's. `run` is a supervised child; `on_lost` hears how many rows are to be published again."""

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
        self.read = 0  # events that were looked for

    def restart(self) -> None:
        """From the newest receipt on, whatever was left of the last time."""
        self._cursor = ScanCursor()
        self._has_work.set()

    async def run(self) -> None:
        """Step by step while something is left; then wait to be begun again."""
        while True:
            await self._has_work.wait()
            since = self._clock()
            went_well = await self._try_step()
            await self._sleep((SHARE - 1) * (self._clock() - since) if went_well else AGAIN_S)

    async def step(self) -> None:
        """The next receipts of MOST events together. Raises BrokerUnavailable, BrokerRefused, DatabaseUnavailable."""
        cursor = self._cursor  # `begin` may put another in its place meanwhile
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
        except Exception as exc:  # whatever it is: a failure of the scrub must not climb to the relay's supervisor
            self._tell(exc)
            return False
        self._trouble = None
        return True

    def _tell(self, exc: Exception) -> None:
        kind = type(exc).__name__  # not the text: it names a reader, another one each time
        if kind != self._trouble:
            self._trouble = kind
            log.warning(events.OUTBOX_SCRUB_FAILED, stream=self._stream, cause=str(exc) if isinstance(exc, RouterError) else kind)

    async def _find(self, cursor: ScanCursor, before: tuple[int, int]) -> None:
        async with self._database.transaction() as session:
            cursor.due = await session.fetch(NEWEST, (self._stream, *before, PAGE), make=ReceiptRow)
        cursor.before = (max(cursor.due[-1].sequences), cursor.due[-1].id) if len(cursor.due) == PAGE else None

    async def _take_back(self, receipts: list[ReceiptRow]) -> int:
        snapshot = await read_stream_snapshot(self._jetstream, self._stream, with_holes=False)
        wanted = _places(receipts, snapshot)
        self.read += len(wanted)
        gone = await find_missing(self._jetstream, snapshot, wanted)
        if not gone:
            return 0
        snapshot = await read_stream_snapshot(self._jetstream, self._stream, with_holes=False)  # what expired while it was read is not lost
        gone &= _places(receipts, snapshot).keys()
        async with self._database.transaction() as session:
            return sum([await reset_rows(session, snapshot, receipt, gone) for receipt in _select_current(snapshot, receipts)])


def _take_first(due: list[ReceiptRow]) -> list[ReceiptRow]:
    """As many as have MOST events together, and at least one."""
    count, events_of_them = 0, 0
    for receipt in due:
        events_of_them += len(receipt.sequences)
        if count and events_of_them > MOST:
            break
        count += 1
    return due[:count]


def _select_current(snapshot: StreamSnapshot, receipts: list[ReceiptRow]) -> list[ReceiptRow]:
    """Those of this stream, and not of an older one of its name, whose sequences mean something else."""
    return [receipt for receipt in receipts if receipt.stream_created == snapshot.created]


def _places(receipts: list[ReceiptRow], snapshot: StreamSnapshot) -> dict[int, UUID]:
    """Where what has not expired should stand."""
    places = [place for receipt in _select_current(snapshot, receipts) for place in zip(receipt.sequences, receipt.ids, strict=True)]
    return {sequence: event for sequence, event in places if sequence >= snapshot.first}
