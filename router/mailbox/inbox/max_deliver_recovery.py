"""Recover messages that the server stopped delivering, because each process that had them died,
hung or was stopped.

Rule: docs/explanation/durability.md#safety-net. A delivery is no attempt: what the row counts
decides.

    an advisory ──> fetch the message by its sequence ──> store its dead letter ──> mark its row ──> ack the advisory
                       └─ it was begun less often than allowed: give it to the handler
             └─ that fails, or is not there: the advisory comes again, and with it the message, until its attempts are used up
                       └─ its row is processed: only the ack was lost, nothing to do
                       └─ it is deleted: the stale row scan finds its row

A consumer of its own on ROUTER_ADVISORIES, so that what cannot be done now is done later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from router.config import Settings
from router.contracts.headers import MESSAGE_ID
from router.core import ids
from router.core.deferred import Deferred
from router.core.message import Effect, Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, Done, Fault, Hold, Outcome, PublishAck, Retry
from router.delivery.consume.advisories import read_stranded
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.mailbox.entities import InboxMessage
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import InboxStatusWriter, PostgresInboxAdapter
from router.mailbox.inbox.dead_letters import InboxDeadLetters
from router.mailbox.inbox.event import message_id_of
from router.mailbox.inbox.handling import InboxUnavailable
from router.mailbox.inbox.process import build_dead_mark
from router.mailbox.inbox.rules import durable_name_of
from router.mailbox.postgres import Database
from router.process.observability import events, logs

log = logs.logger(__name__)

# how a message ended, beside the reasons of dead letters
PROCESSED, STRANDED = "processed", "stranded"
STRANDED_FAULT = Fault("stranded", "delivered as often as allowed, and never settled")
NO_SUBJECT = "unreadable_subject"  # for a row whose subject no message can have
GONE_FAULT = Fault("stranded", "never settled, and its stream does not hold it any more")


class InboxMaxDeliverRecovery:
    """Ends what no process lived to end, for one durable: by `handle_event`, or by a dead letter.
    `on_ended` gets the code of each end.
    """

    def __init__(
        self,
        jetstream: JetStream,
        database: Database,
        writer: InboxStatusWriter,
        dead_letters: InboxDeadLetters,
        settings: Settings,
        *,
        handle_event: Callable[[Message], Outcome | Deferred[Outcome]],
        is_in_hand: Callable[[str], bool],
        on_ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        inbox = settings.inbox
        self.stream, self.durable = inbox.events_stream, durable_name_of(settings)
        self.is_in_hand = is_in_hand
        self._jetstream = jetstream
        self._database = database
        self._handle_event = handle_event
        self._writer = writer
        self._dead_letters = dead_letters
        self._max_deliver = inbox.max_deliver
        self._again_s = (
            inbox.nak_after_s if inbox.nak_after_s is not None else inbox.ack_wait_ms / 1000
        )
        self._on_ended = on_ended

    async def handle(self, advisory: Message) -> Outcome:
        """Handle one advisory."""
        stored = await read_stranded(self._jetstream, self.stream, advisory)
        return await self.recover(stored) if stored is not None else Done()

    async def recover(self, stored: StoredMessage) -> Done | Retry:
        """Return what is left to do for this message: its dead letter and then its row's mark, or
        nothing; or to try again later.

        Raises InboxUnavailable.
        """
        message = self.to_message(stored)
        message_id = message_id_of(message)
        # the scan and the advisory may come to it at the same time
        was_in_hand = self.is_in_hand(message_id)
        attempts = await self._read_attempts(message_id)
        if attempts is None:
            return Done()
        if was_in_hand or self.is_in_hand(message_id):
            return Retry(STRANDED_FAULT, self._again_s, uses_attempt=False)
        if attempts < self._max_deliver:
            return await self._give_to_handler(replace(message, attempts=attempts + 1))
        return self._build_outcome(
            self._dead_letters.write(message, MAXDELIVER_EXHAUSTED, STRANDED_FAULT),
            message_id,
            STRANDED_FAULT,
        )

    def give_up_row(self, row: InboxMessage) -> Done:
        """The same for a row whose message the stream does not hold any more."""
        message_id = str(row.message_id)
        subject = row.subject if ids.is_literal_subject(row.subject) else NO_SUBJECT
        message = self._message(subject, b"", {MESSAGE_ID: message_id}, 0, 0)
        return self._build_outcome(
            self._dead_letters.write(message, MAXDELIVER_EXHAUSTED, GONE_FAULT, is_whole=False),
            message_id,
            GONE_FAULT,
        )

    def to_message(self, stored: StoredMessage) -> Message:
        """Build the message as its last delivery was."""
        return self._message(
            stored.subject, stored.data, stored.headers, stored.sequence, nanos(stored.time)
        )

    def _message(
        self, subject: str, data: bytes, headers: Mapping[str, str], sequence: int, stored_ns: int
    ) -> Message:
        times = self._max_deliver
        return Message(
            subject, data, headers, self.stream, self.durable, sequence, stored_ns, times, "", times
        )

    async def _read_attempts(self, message_id: str) -> int | None:
        try:
            async with self._database.transaction() as session:
                return await PostgresInboxAdapter(session).attempts_of(message_id)
        except (DatabaseUnavailable, DatabaseRefused) as exc:
            raise InboxUnavailable(str(exc)) from exc

    async def _give_to_handler(self, message: Message) -> Done | Retry:
        begun = self._handle_event(message)
        outcome = await begun if isinstance(begun, Deferred) else begun
        if isinstance(outcome, Retry | Hold):
            return Retry(outcome.fault, self._again_s, uses_attempt=False)
        log.warning(
            events.MESSAGE_RESCUED,
            stream=self.stream,
            sequence=message.sequence,
            outcome=type(outcome).__name__,
        )
        if isinstance(outcome, Done):
            self._on_ended(PROCESSED)
            return Done()
        mark_row = outcome.commit

        async def commit(publish_acks: Sequence[PublishAck]) -> None:
            if mark_row is not None and (marking := mark_row(publish_acks)) is not None:
                await marking
            self._on_ended(outcome.reason)

        return Done(
            (self._dead_letters.write(message, outcome.reason, outcome.fault),), commit=commit
        )

    def _build_outcome(self, dead_letter: Effect, message_id: str, fault: Fault) -> Done:
        async def commit(_: Sequence[PublishAck]) -> None:
            await self._writer.write(build_dead_mark(message_id, MAXDELIVER_EXHAUSTED, fault))
            self._on_ended(STRANDED)

        return Done((dead_letter,), commit=commit)
