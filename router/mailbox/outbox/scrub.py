"""Whether each event still stands where the broker acknowledged it: read by sequence, newest first, a step now and then.

A server that was killed reads its blocks again and cuts off what is damaged; `lost` sees that. One that was stopped in order
trusts its own index: a block that rotted meanwhile is still counted, no hole is told, and its message is only found missing
by who reads it. So after every reconnect all that was acknowledged is read once, heads alone.

A child of its own beside the relay, so that no step stands between an event and its publishing: a step takes a bounded time
(`absent`) and rests nine times as long; one that fails is told once for each kind of failure and tried again a minute later.
It needs what `lost` needs, STREAM.INFO and STREAM.MSG.GET, and CONSUMER.CREATE, MSG.NEXT and DELETE on the events' stream:
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
from router.mailbox.outbox.absent import absent
from router.mailbox.outbox.lost import NEWEST, Standing, Written, standing_of, take_back
from router.mailbox.postgres import Database
from router.observability import events, logs

log = logs.logger(__name__)

PAGE: Final = 20  # receipts found at once
MOST: Final = 1000  # events looked for in one step; a receipt has no more than that
SHARE: Final = 10  # a step is followed by a rest of nine times as long
AGAIN_S: Final = 60.0  # after a failure
TOP: Final = (1 << 62, 0)  # above every receipt


class Way(Struct):
    """One way through the receipts."""

    before: tuple[int, int] | None = TOP  # the last receipt that was found; None: there are no more
    due: list[Written] = field(default_factory=list)  # found and not yet looked at

    @property
    def is_over(self) -> bool:
        return self.before is None and not self.due


class Scrub:
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
        self._way = Way(before=None)
        self._begun = asyncio.Event()
        self._trouble: str | None = None  # the kind of the last failure
        self.read = 0  # events that were looked for

    def begin(self) -> None:
        """From the newest receipt on, whatever was left of the last time."""
        self._way = Way()
        self._begun.set()

    async def run(self) -> None:
        """Step by step while something is left; then wait to be begun again."""
        while True:
            await self._begun.wait()
            since = self._clock()
            went_well = await self._tried()
            await self._sleep((SHARE - 1) * (self._clock() - since) if went_well else AGAIN_S)

    async def step(self) -> None:
        """The next receipts of MOST events together. Raises BrokerUnavailable, BrokerRefused, DatabaseUnavailable."""
        way = self._way  # `begin` may put another in its place meanwhile
        if not way.due and way.before is not None:
            await self._find(way, way.before)
        some = _first_of(way.due)
        if some and (lost := await self._take_back(some)):
            self._on_lost(lost)
        del way.due[: len(some)]
        if self._way.is_over:
            self._begun.clear()

    async def _tried(self) -> bool:
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

    async def _find(self, way: Way, before: tuple[int, int]) -> None:
        async with self._database.transaction() as session:
            way.due = await session.fetch(NEWEST, (self._stream, *before, PAGE), make=Written)
        way.before = (max(way.due[-1].sequences), way.due[-1].id) if len(way.due) == PAGE else None

    async def _take_back(self, receipts: list[Written]) -> int:
        standing = await standing_of(self._jetstream, self._stream, with_holes=False)
        wanted = _places(receipts, standing)
        self.read += len(wanted)
        gone = await absent(self._jetstream, standing, wanted)
        if not gone:
            return 0
        standing = await standing_of(self._jetstream, self._stream, with_holes=False)  # what expired while it was read is not lost
        gone &= _places(receipts, standing).keys()
        async with self._database.transaction() as session:
            return sum([await take_back(session, standing, written, gone) for written in _of(standing, receipts)])


def _first_of(due: list[Written]) -> list[Written]:
    """As many as have MOST events together, and at least one."""
    count, events_of_them = 0, 0
    for written in due:
        events_of_them += len(written.sequences)
        if count and events_of_them > MOST:
            break
        count += 1
    return due[:count]


def _of(standing: Standing, receipts: list[Written]) -> list[Written]:
    """Those of this stream, and not of an older one of its name, whose sequences mean something else."""
    return [written for written in receipts if written.stream_created == standing.created]


def _places(receipts: list[Written], standing: Standing) -> dict[int, UUID]:
    """Where what has not expired should stand."""
    places = [place for written in _of(standing, receipts) for place in zip(written.sequences, written.ids, strict=True)]
    return {sequence: event for sequence, event in places if sequence >= standing.first}
