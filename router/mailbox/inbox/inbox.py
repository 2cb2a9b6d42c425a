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

from msgspec import Struct

from router.core.errors import Misconfigured
from router.core.outcome import Handler as Handle
from router.delivery.consume.consumer import Consumer, Deadlines
from router.delivery.consume.subscription import SILENT, ConsumerOptions, Subscription
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import ConsumerSpec, Topology
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.consumer import InboxConsumer
from router.mailbox.inbox.dead_letters import InboxDeadLetters
from router.mailbox.inbox.http_handler import HttpEventHandler
from router.mailbox.inbox.http_strategy import HttpStrategy
from router.mailbox.inbox.max_deliver_recovery import InboxMaxDeliverRecovery
from router.mailbox.inbox.observer import InboxObserver
from router.mailbox.inbox.process import FailureRules, ProcessInboxMessage
from router.mailbox.inbox.retention import InboxRetention, InboxRetentionRules
from router.mailbox.inbox.rules import (
    InboxRules,
    consumer_options_of,
    durable_of,
    recovery_consumer_of,
)
from router.mailbox.inbox.stale_row_scan import StaleRowScan, StaleRowScanRules
from router.mailbox.inbox.status_writer import InboxStatusWriter
from router.mailbox.inbox.transactional_strategy import Handler, TransactionalStrategy
from router.mailbox.postgres import Database
from router.process.supervision import Child, Helper, Intensity, Strategy, Supervisor

DRAIN = Deadlines(10.0, 15.0)
# An advisory is never given up. Its message may take its handler's time, and delays no other. With
# those that come again they are at most as many as the server's max_ack_pending.
RECOVERY_OPTIONS = ConsumerOptions(
    max_attempts=1_000_000, prefetch=64, slots=64, max_delayed=936, handler_timeout=86_400.0
)


class InboxPlace(Struct, frozen=True, kw_only=True):
    """Where an inbox runs.

    `attempts_bucket`: where recorded attempts are kept; `may_create`: durables that are missing.
    """

    node_id: str
    attempts_bucket: str
    may_create: bool = True


class Inbox:
    """`handler` gets the events."""

    def __init__(
        self,
        rules: InboxRules,
        jetstream: JetStream,
        database: Database,
        handler: Handler | HttpEventHandler,
        *,
        place: InboxPlace,
        stale_rows: StaleRowScanRules = StaleRowScanRules(),  # noqa: B008 - frozen
        retention: InboxRetentionRules = InboxRetentionRules(),  # noqa: B008 - frozen
        deadlines: Deadlines = DRAIN,
    ) -> None:
        self.rules = rules.validate()
        self._jetstream = jetstream
        self._database = database
        self._attempts_bucket = place.attempts_bucket
        self._may_create = place.may_create
        self._deadlines = deadlines
        self._dead_letters = InboxDeadLetters(
            context=rules.context,
            durable=rules.durable,
            node_id=place.node_id,
            max_bytes=jetstream.connection.max_payload,
        )
        self._writer = InboxStatusWriter(database, rules.store_retry)
        self.observer = InboxObserver(rules.durable, self._writer)
        process = ProcessInboxMessage(
            self._writer, FailureRules(max_deliver=rules.max_deliver, nak_after_s=rules.nak_after)
        )
        self._strategy = self._build_strategy(handler, process)
        self._inbox = InboxConsumer(
            database,
            self._strategy,
            self.observer,
            max_bytes=rules.max_payload_bytes,
            max_depth=rules.max_depth,
        )
        recovery = InboxMaxDeliverRecovery(
            jetstream,
            database,
            self._writer,
            self._dead_letters,
            rules,
            handle_event=self._inbox.rescue,
            is_in_hand=self._inbox.is_in_hand,
            on_ended=self.observer.on_recovered,
        )
        self._stale_rows = StaleRowScan(jetstream, database, recovery, stale_rows)
        self._retention = InboxRetention(database, jetstream, rules.stream, retention)
        self.helpers = (
            Helper("stale_row_scan", self._stale_rows.run),
            Helper("retention", self._retention.run),
        )
        self.consumer = self._consumer_of(
            durable_of(rules), self._inbox.handle, consumer_options_of(rules)
        )
        self.recovery = self._consumer_of(
            recovery_consumer_of(rules), recovery.handle, RECOVERY_OPTIONS
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
                timeout_s=self.rules.handler_timeout,
            )
        on_trouble = self.observer.on_handler_trouble
        return HttpStrategy(
            handler,
            process.conclude,
            process.hold,
            on_error,
            retry_s=self.rules.store_retry,
            on_trouble=on_trouble,
        )

    @property
    def trouble(self) -> str | None:
        """Why the handler serves no event, though it answers; for readiness."""
        return self._strategy.trouble

    async def open(self) -> None:
        """Claim the table. Raises Misconfigured when it is another durable's, DatabaseUnavailable."""
        async with self._database.transaction() as session:
            owner = await PostgresInboxAdapter(session).claim(self.rules.stream, self.rules.durable)
        if owner != (self.rules.stream, self.rules.durable):
            whose = "/".join(owner)
            raise Misconfigured(
                "inbox.durable",
                (
                    f"this schema's inbox belongs to {whose}: give {self.rules.durable} a "
                    "schema of its own"
                ),
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
            observer=self.observer if spec.durable == self.rules.durable else SILENT,
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
