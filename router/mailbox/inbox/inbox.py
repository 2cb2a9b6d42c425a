"""One inbox: its durable, rows, handler, dead letters and recovery, in a tree for a supervisor.

    inbox  rest_for_one
    ├── status_writer    writes the results of messages into their rows
    ├── handler          the strategy: your function in the row's transaction, or calls over HTTP
    ├── rows             writes deliveries into rows
    ├── recovery         a consumer on the advisories
    ├── stale_row_scan   finds rows of messages that are delivered no more
    ├── retention        deletes rows that are of no use any more
    └── consumer         the consumer on the durable: the last to start, the first to drain

A table belongs to one durable; `open` refuses a second one (docs/reference/requirements.md#x9).
"""

from __future__ import annotations

from functools import partial

from router.config import Settings
from router.core.errors import Misconfigured
from router.core.outcome import Handler as Handle
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.subscription import SILENT, ConsumerOptions, Subscription
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import ConsumerSpec, Topology
from router.mailbox.inbox.adapter import InboxRetention, InboxStatusWriter, PostgresInboxAdapter
from router.mailbox.inbox.consumer import InboxConsumer
from router.mailbox.inbox.dead_letters import InboxDeadLetters
from router.mailbox.inbox.http_handler import HttpEventHandler
from router.mailbox.inbox.http_strategy import HttpStrategy
from router.mailbox.inbox.max_deliver_recovery import InboxMaxDeliverRecovery
from router.mailbox.inbox.observer import InboxObserver
from router.mailbox.inbox.process import ProcessInboxMessage
from router.mailbox.inbox.rules import (
    check_names,
    consumer_options_of,
    durable_name_of,
    durable_of,
    recovery_consumer_of,
)
from router.mailbox.inbox.stale_row_scan import StaleRowScan
from router.mailbox.inbox.transactional_strategy import Handler, TransactionalStrategy
from router.mailbox.postgres import Database
from router.process.supervision import Child, Helper, Intensity, Strategy, Supervisor

STORE_RETRY_S = 1.0  # between two tries of an unavailable database, handler or broker
# An advisory is never given up. Its message may take its handler's time, and delays no other. With
# those that come again they are at most as many as the server's max_ack_pending.
RECOVERY_OPTIONS = ConsumerOptions(
    max_attempts=1_000_000, prefetch=64, slots=64, max_delayed=936, handler_timeout=86_400.0
)


class Inbox:
    """`handler` gets the events."""

    def __init__(
        self,
        settings: Settings,
        jetstream: JetStream,
        database: Database,
        handler: Handler | HttpEventHandler,
        *,
        store_retry_s: float = STORE_RETRY_S,
    ) -> None:
        """Raises Misconfigured."""
        check_names(settings)
        inbox = settings.inbox
        self.stream, self.durable = inbox.events_stream, durable_name_of(settings)
        self._handler_timeout_s, self._store_retry_s = (
            inbox.handler.timeout_ms / 1000,
            store_retry_s,
        )
        self._jetstream = jetstream
        self._database = database
        self._attempts_bucket = settings.buckets.attempts.name
        self._may_create = settings.topology == "create"
        self._deadlines = settings.drain
        self._dead_letters = InboxDeadLetters(
            context=settings.mailbox.context,
            durable=self.durable,
            node_id=settings.node_id,
            max_bytes=jetstream.connection.max_payload,
        )
        self._writer = InboxStatusWriter(database, store_retry_s)
        self.observer = InboxObserver(self.durable, self._writer)
        process = ProcessInboxMessage(self._writer, inbox)
        self._strategy = self._build_strategy(handler, process)
        self._inbox = InboxConsumer(
            database,
            self._strategy,
            self.observer,
            max_bytes=settings.max_payload_bytes,
            max_depth=settings.max_depth,
        )
        recovery = InboxMaxDeliverRecovery(
            jetstream,
            database,
            self._writer,
            self._dead_letters,
            settings,
            handle_event=self._inbox.rescue,
            is_in_hand=self._inbox.is_in_hand,
            on_ended=self.observer.on_recovered,
        )
        self._stale_rows = StaleRowScan(jetstream, database, recovery, inbox)
        self._retention = InboxRetention(database, jetstream, self.stream, inbox.keep_ms / 1000)
        self.helpers = (
            Helper("stale_row_scan", self._stale_rows.run),
            Helper("retention", self._retention.run),
        )
        self.consumer = self._consumer_of(
            durable_of(settings), self._inbox.handle, consumer_options_of(inbox, store_retry_s)
        )
        self.recovery = self._consumer_of(
            recovery_consumer_of(settings), recovery.handle, RECOVERY_OPTIONS
        )

    def _build_strategy(
        self, handler: Handler | HttpEventHandler, process: ProcessInboxMessage
    ) -> TransactionalStrategy | HttpStrategy:
        on_error = self.observer.on_handler_error
        if not isinstance(handler, HttpEventHandler):
            return TransactionalStrategy(
                self._database,
                handler,
                process.conclude,
                process.take_back,
                on_error,
                timeout_s=self._handler_timeout_s,
            )
        on_trouble = self.observer.on_handler_trouble
        return HttpStrategy(
            handler,
            process.conclude,
            process.hold,
            on_error,
            retry_s=self._store_retry_s,
            on_trouble=on_trouble,
        )

    @property
    def trouble(self) -> str | None:
        """Why the handler serves no event, though it answers; for readiness."""
        return self._strategy.trouble

    async def open(self) -> None:
        """Claim the table. Raises Misconfigured when it is another durable's, DatabaseUnavailable."""
        async with self._database.transaction() as session:
            owner = await PostgresInboxAdapter(session).claim(self.stream, self.durable)
        if owner != (self.stream, self.durable):
            whose = "/".join(owner)
            raise Misconfigured(
                "inbox.durable",
                f"this schema's inbox belongs to {whose}: give {self.durable} a schema of its own",
            )

    def tree(self) -> Supervisor:
        """Raises nothing; call `open` first."""
        children = (
            Child("status_writer", self._writer.run),
            Child("handler", self._strategy.run),
            Child("rows", self._inbox.run),
            Child("recovery", self.recovery.run, shutdown_s=self._deadlines.hard + 2),
            *(helper.child for helper in self.helpers),
            Child("consumer", self.consumer.run, shutdown_s=self._deadlines.hard + 2),
        )
        return Supervisor(
            "inbox", children, strategy=Strategy.REST_FOR_ONE, intensity=Intensity(5, 30)
        )

    def _consumer_of(
        self, spec: ConsumerSpec, handle: Handle, options: ConsumerOptions
    ) -> Consumer:
        subscription = Subscription(
            stream=spec.stream,
            durable=spec.durable,
            options=options,
            handle=handle,
            dead_letter=self._dead_letters.write,
            observer=self.observer if spec.durable == self.durable else SILENT,
        )
        return Consumer(
            subscription,
            self._jetstream,
            attempts_bucket=self._attempts_bucket,
            create=partial(self._create, spec),
            deadlines=self._deadlines,
        )

    async def _create(self, spec: ConsumerSpec) -> None:
        """Create the durable. The publisher of the events makes their stream; this waits for it."""
        if self._may_create and await self._jetstream.stream(spec.stream) is not None:
            await topology.create(self._jetstream, Topology((), (spec,)))
