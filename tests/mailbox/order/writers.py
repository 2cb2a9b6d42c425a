"""Writers of one aggregate: each does a step when it is its turn, and all of it again where
PostgreSQL ended its transaction.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from uuid import UUID, uuid4

from psycopg import errors

from router import outbox
from router.mailbox.postgres import Driver
from tests.mailbox.order.schedule import LOCKS, Interleaving, WriterPlan

PLAIN = """
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    VALUES (%s, 'order', %s, 'order_paid', '{}')"""
ONE_STATEMENT = """
    WITH changed AS (UPDATE orders SET changes = changes + 1 WHERE id = %s RETURNING id)
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT given.id, 'order', changed.id, 'order_paid', '{}'
    FROM changed, unnest(%s::uuid[]) WITH ORDINALITY AS given (id, place) ORDER BY given.place"""
ENDED = (errors.SerializationFailure, errors.DeadlockDetected)


class Attempt:
    """One transaction: which of its aggregate's it was to begin, and what it adds."""

    def __init__(self, began: int, events: list[UUID]) -> None:
        self.began = began
        self.events = events


class Ledger:
    """Who had the lock of one aggregate, in that order; what was rolled back is taken off."""

    def __init__(self, aggregate: str) -> None:
        self.aggregate = aggregate
        self.held: list[Attempt] = []
        self.contending: set[object] = set()  # writers that have the lock, or wait for it
        self.begins = count()
        self.retries = 0

    @property
    def events(self) -> list[UUID]:
        return [event for attempt in self.held for event in attempt.events]

    @property
    def is_crossed(self) -> bool:
        """Whether a transaction had the lock before one that began earlier."""
        return any(one.began > other.began for one, other in pairwise(self.held))


class Writer:
    """One writer on a connection that begins and commits by itself."""

    def __init__(self, connection: Driver, plan: WriterPlan, level: str, ledger: Ledger) -> None:
        self._connection = connection
        self._plan = plan
        self._level = level
        self._ledger = ledger
        self._turn = asyncio.Semaphore(0)
        self._did_step = asyncio.Event()
        self._is_before_lock = False  # its next step is the lock
        self._is_locking = False
        self._is_free = False  # its transaction was ended: it begins again, and waits for no turn

    async def give_turn(self) -> None:
        """Let it do its next step, and wait until that is done, unless another writer may have to
        act first.
        """
        others = self._ledger.contending - {self}
        may_wait = self._is_free or self._is_locking or (self._is_before_lock and others)
        self._did_step.clear()
        self._turn.release()
        if not may_wait:
            await self._did_step.wait()

    async def run(self) -> None:
        while not await self._is_committed():
            self._is_free = True
            self._did_step.set()
            self._ledger.retries += 1

    async def _is_committed(self) -> bool:
        attempt = Attempt(0, [uuid4() for _ in self._plan.ages])
        try:
            await self._try(attempt)
        except ENDED:
            if attempt in self._ledger.held:
                self._ledger.held.remove(attempt)
            self._ledger.contending.discard(self)
            await self._connection.execute("ROLLBACK")
            return False
        return True

    async def _try(self, attempt: Attempt) -> None:
        await self._take_turn()
        await self._connection.execute(f"BEGIN ISOLATION LEVEL {self._level}")  # type: ignore[call-overload]
        attempt.began, self._is_before_lock = next(self._ledger.begins), True
        self._did_step.set()
        await self._take_turn()
        await self._lock(attempt)
        self._did_step.set()
        await self._take_turn()
        await self._add(attempt)
        self._did_step.set()
        await self._take_turn()
        await self._connection.execute("COMMIT")
        self._ledger.contending.discard(self)
        self._did_step.set()

    async def _take_turn(self) -> None:
        if not self._is_free:
            await self._turn.acquire()

    async def _lock(self, attempt: Attempt) -> None:
        self._is_before_lock, self._is_locking = False, True
        self._ledger.contending.add(self)
        aggregate = self._ledger.aggregate
        if self._plan.way == "one statement":
            await self._connection.execute(ONE_STATEMENT, (aggregate, attempt.events))
        else:
            await self._connection.execute(LOCKS[self._plan.lock], (aggregate,))  # type: ignore[call-overload]
        self._ledger.held.append(attempt)
        self._is_locking = False

    async def _add(self, attempt: Attempt) -> None:
        if self._plan.way == "one statement":
            return
        for event, age in zip(attempt.events, self._plan.ages, strict=True):
            if self._plan.way == "plain SQL":
                await self._connection.execute(PLAIN, (event, self._ledger.aggregate))
            else:
                await outbox.add(self._connection, self._build_event(event, age))

    def _build_event(self, event: UUID, age: int) -> outbox.OutboxEvent:
        occurred_at = (
            datetime.now(UTC) - timedelta(seconds=age)
            if self._plan.way == "outbox.add with a time"
            else None
        )
        return outbox.OutboxEvent(
            event, "order", self._ledger.aggregate, "order_paid", {}, occurred_at=occurred_at
        )


async def interleave(given: Interleaving, level: str, connections: list[Driver]) -> Ledger:
    """Let the writers of one aggregate work in the drawn turns, to their commits."""
    ledger = Ledger(given.aggregate)
    await connections[0].execute("INSERT INTO orders VALUES (%s, 0)", (given.aggregate,))
    writers = [
        Writer(connection, plan, level, ledger)
        for connection, plan in zip(connections, given.writers, strict=True)
    ]
    async with asyncio.TaskGroup() as group:
        for writer in writers:
            group.create_task(writer.run())
        for turn in given.turns:
            await writers[turn].give_turn()
    return ledger
