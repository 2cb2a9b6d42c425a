"""A handler of this process, its effect and the message's row in one transaction: the only way to
exactly-once.

Rule: docs/reference/requirements.md#sd-36.

    async def handle(connection, event):                        # psycopg's connection; the transaction is ours
        await connection.execute("INSERT INTO orders …", (event.message_id, …))

    start --> [queue] --> lock many rows, call their handlers in order, one commit --> acknowledged
                              \\-> one of them fails: roll back, and handle each of them again alone
                                   \\-> it takes long, or was begun before: one by one, beside the
                                   others

The handler returns None or a HandlerResult; anything else ends the inbox, and its events stay. It
raises Poison for an event that can never succeed, any other exception for one that may. It must not
commit, and may wait as long as `inbox.handler.timeout_ms` says. The planner treats its connection
by the server's own settings. Statements of a batch go through psycopg's pipeline, which may report
a failure only at the end; the event is then handled again alone, where the failure shows at once. A
rolled-back handler runs again, so its calls to the outside happen at least once, as everywhere. An
event that no handler began, or under which the database went away, has its attempt taken back:
`take_back`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress

from router.core.clock import steady
from router.core.coalescer import Coalescer
from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred
from router.core.errors import Poison
from router.core.outcome import Done
from router.core.user_functions import HandlerMisused, contain_cancellation, require_call
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.dead_letters import describe_failure
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import (
    HandlerAnswer,
    HandlerResult,
    InboxDelivery,
    InboxUnavailable,
)
from router.mailbox.inbox.http_strategy import Alarm, Conclude
from router.mailbox.ports import current_message
from router.mailbox.postgres import Database, Driver, Session

Handler = Callable[[Driver, InboxEvent], Awaitable[HandlerResult | None]]
# the cause; the result is there when the row says so
TakeBack = Callable[[InboxDelivery, str], Deferred[None]]

MAX_EVENTS_PER_TRANSACTION = 100
QUICK_S = 0.5  # a batch that takes longer was too large
# the share of its timeout that an event may take while others wait for it; alone it has all of it
SHARED_TIMEOUT_PART = 1 / 6
LAST_MARKS_S = 1.0  # the database has so long to take the marks of what was never begun
# added to the handler's timeout: then the server ends an idle transaction, of a process that hangs
# or lost its network
SPARE_S = 5.0
GOOD = (None, HandlerResult.PROCESSED, HandlerResult.ALREADY_PROCESSED)


def check_handler(handler: Handler) -> None:
    """Raises Misconfigured for a handler that could not be called."""
    require_call("handler", handler, "connection", "event", is_async=True)


class _RollbackRequested(Exception):
    """The handler answered that its effect must be rolled back."""

    def __init__(self, result: HandlerResult) -> None:
        super().__init__(result.value)
        self.result = result


class TransactionalStrategy:
    """A `HandlerStrategy`; `run` does its work."""

    linger_s = 0.0  # capacity comes free by the batch
    trouble: str | None = None  # a function is always there

    def __init__(
        self,
        database: Database,
        handler: Handler,
        conclude: Conclude,
        take_back: TakeBack,
        on_error: Alarm,
        *,
        timeout_s: float = 30.0,
    ) -> None:
        check_handler(handler)
        self._database = database
        self._handlers = database  # while it runs: a pool whose settings suit a service's own code
        self._handler = handler
        self._conclude = conclude
        self._take_back = take_back
        self._on_error = on_error
        self._timeout_s = timeout_s
        self._queue: Coalescer[InboxDelivery] = Coalescer()
        self._retries: Coalescer[InboxDelivery] = Coalescer()
        # its database is the inbox's own, which reports that itself
        self.unavailable: InboxUnavailable | None = None

    def start(self, deliveries: Sequence[InboxDelivery]) -> None:
        for delivery in deliveries:
            (self._queue if delivery.attempts <= 1 else self._retries).add(delivery)

    async def run(self) -> None:
        """Run until cancelled; then the open transactions roll back. Raises HandlerMisused."""
        try:
            handlers = self._database.build_handler_pool(
                idle_in_transaction=self._timeout_s + SPARE_S
            )
            async with handlers as self._handlers, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._handle_batches())
                tasks.create_task(self._handle_retries())
        except BaseExceptionGroup as group:
            misuse = next(
                (error for error in group.exceptions if isinstance(error, HandlerMisused)), None
            )
            if misuse is None:
                raise
            self._suspend_all(misuse)
            raise misuse from None
        finally:
            await self._clear_queues()

    def _suspend_all(self, misuse: HandlerMisused) -> None:
        """The handler is not called again: waiting and later deliveries stay in the stream."""
        self.unavailable = InboxUnavailable(str(misuse))
        self._suspend([*self._queue.take_all(), *self._retries.take_all()], misuse)

    async def _clear_queues(self) -> None:
        """The inbox stops, and what waits goes back without having been begun."""
        marks = self._return_unbegun([*self._queue.take_all(), *self._retries.take_all()])
        with suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(LAST_MARKS_S):
                for mark in marks:
                    await mark

    async def _handle_batches(self) -> None:
        """Handle events at their first attempt, many in one transaction."""
        most = 1
        while True:
            with self._put_back_unbegun(await self._queue.take(most)) as deliveries:
                begun = steady()
                # a drain gave them back
                self._return_unbegun(
                    [delivery for delivery in deliveries if delivery.later.is_resolved]
                )
                stands = await self._handle(
                    [delivery for delivery in deliveries if not delivery.later.is_resolved]
                )
                # Like the pull window: after a slow or failing batch the next one is small, so few
                # events share its fate.
                most = (
                    min(2 * most, MAX_EVENTS_PER_TRANSACTION)
                    if stands and steady() - begun < QUICK_S
                    else 1
                )

    async def _handle_retries(self) -> None:
        """Handle events that were begun before, or took too long, one by one, each with its whole
        time; no other event waits for them.
        """
        while True:
            with self._put_back_unbegun(await self._retries.take(1)) as deliveries:
                for delivery in deliveries:
                    if delivery.later.is_resolved:
                        self._return_unbegun([delivery])
                    else:
                        await self._handle_alone(delivery)

    @contextmanager
    def _put_back_unbegun(
        self, deliveries: Sequence[InboxDelivery]
    ) -> Iterator[Sequence[InboxDelivery]]:
        """If the block is cancelled, or raises, what no handler has seen waits again: the end of
        the run takes its attempt back.
        """
        try:
            yield deliveries
        except BaseException:  # a cancellation too: a stop must spend no attempt
            for delivery in deliveries:
                if not delivery.was_begun:
                    self._queue.add(delivery)
            raise

    async def _handle(self, deliveries: Sequence[InboxDelivery]) -> bool:
        """Return whether all of them were applied at the first try."""
        try:
            await self._apply(deliveries, SHARED_TIMEOUT_PART * self._timeout_s)
        except HandlerMisused as exc:
            self._suspend(deliveries, exc)
            raise
        except Exception as exc:
            # the handler's or the database's: one message alone shows whose it is
            if isinstance(exc, DatabaseUnavailable) and not await self._is_database_up():
                self._suspend(deliveries, exc)
            elif len(deliveries) > 1:
                for delivery in deliveries:
                    await self._handle([delivery])
            elif isinstance(exc, DatabaseUnavailable | TimeoutError):
                self._retries.add(deliveries[0])
            else:
                await self._conclude(deliveries[0], self._answer_for(deliveries[0], exc))
            return False
        return True

    async def _handle_alone(self, delivery: InboxDelivery) -> None:
        """Try once more if the database is back already; a second failure is the message's own."""
        for is_last in (False, True):
            try:
                await self._apply([delivery], self._timeout_s)
            except HandlerMisused as exc:
                self._suspend([delivery], exc)
                raise
            except Exception as exc:  # as above
                if isinstance(exc, DatabaseUnavailable) and not await self._is_database_up():
                    self._suspend([delivery], exc)
                elif is_last or not isinstance(exc, DatabaseUnavailable):
                    await self._conclude(delivery, self._answer_for(delivery, exc))
                else:
                    continue
            return

    async def _apply(self, deliveries: Sequence[InboxDelivery], within_s: float) -> None:
        async with asyncio.timeout(within_s), self._handlers.transaction() as session:
            # The mark is the lock: another process with one of these messages waits here, and then
            # finds it processed.
            messages = [
                (delivery.event.message_id, delivery.event.subject, delivery.attempts)
                for delivery in deliveries
            ]
            ours = await PostgresInboxAdapter(session).lock(messages)
            # Many share a pipeline, which sends statements without waiting for each; one alone has
            # none, so that an error is its own.
            async with (
                session.stay(),
                session.driver.pipeline() if len(deliveries) > 1 else nullcontext(),
            ):
                for delivery in deliveries:
                    if delivery.event.message_id in ours:
                        if len(deliveries) > 1:
                            await session.require_block()
                        await self._run(session, delivery)
            crashpoint("inbox_handled")
        crashpoint("inbox_marked")
        for delivery in deliveries:
            delivery.later.resolve(Done())

    async def _run(self, session: Session, delivery: InboxDelivery) -> None:
        current_message.set(delivery.message)
        delivery.was_begun = True
        crashpoint("inbox_handling")
        with contain_cancellation:  # one that passed on would end the strategy
            result = await self._handler(session.driver, delivery.event)
        if result not in GOOD:
            raise (
                _RollbackRequested(result)
                if isinstance(result, HandlerResult)
                else _misuse_error(result)
            )

    def _answer_for(self, delivery: InboxDelivery, exc: Exception) -> HandlerAnswer:
        match exc:
            case _RollbackRequested():
                return HandlerAnswer(exc.result, "its handler said so")
            case Poison():
                return HandlerAnswer(HandlerResult.POISON, describe_failure(exc))
            case DatabaseRefused():
                return HandlerAnswer(HandlerResult.TRANSIENT, describe_failure(exc))
            case TimeoutError():
                return HandlerAnswer(HandlerResult.TRANSIENT, "timeout")
            case _:
                self._on_error(delivery.message, exc)
                return HandlerAnswer(HandlerResult.TRANSIENT, describe_failure(exc))

    def _suspend(self, deliveries: Sequence[InboxDelivery], cause: Exception) -> None:
        """Resolve the deliveries as unavailable: the database is, or the inbox ends. Their rows are
        written when they can be.
        """
        for delivery in deliveries:
            if not delivery.is_taken_back:
                self._take_back(delivery, str(cause))
            delivery.later.resolve(InboxUnavailable(str(cause)))

    def _return_unbegun(self, deliveries: Sequence[InboxDelivery]) -> list[Deferred[None]]:
        # one that waits in both queues is taken back by its first look
        cause = "the inbox stopped before its turn"
        return [
            self._take_back(delivery, cause)
            for delivery in deliveries
            if not delivery.was_begun and not delivery.is_taken_back
        ]

    async def _is_database_up(self) -> bool:
        """Whether there is a connection for handlers: one that the inbox has for itself says
        nothing of theirs.
        """
        try:
            async with self._handlers.transaction() as session:
                await session.execute("SELECT 1")
        except (DatabaseUnavailable, DatabaseRefused):
            return False
        return True


def _misuse_error(result: object) -> HandlerMisused:
    return HandlerMisused(
        "handler", f"it returned {type(result).__name__}, and should return None or a HandlerResult"
    )
