"""Recover messages that the server stopped delivering, because each process that had them died or hung.

Rule: docs/explanation/durability.md#safety-net.

    an advisory ──> fetch the message by its sequence ──> store its dead letter ──> mark its row ──> ack the advisory
                       └─ its row is processed: only the ack was lost, nothing to do
                       └─ it is deleted: the stale row scan finds its row

A consumer of its own on ROUTER_ADVISORIES, so that what cannot be done now is done later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from router.contracts.headers import MESSAGE_ID
from router.core import ids
from router.core.message import Effect, Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, Done, Fault, Outcome, PublishAck
from router.delivery.advisories import read_stranded
from router.delivery.api import JetStream, StoredMessage, nanos
from router.mailbox.entities import InboxMessage
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.mailbox.inbox.adapter import PostgresInboxAdapter
from router.mailbox.inbox.dead_letters import InboxDeadLetters
from router.mailbox.inbox.event import message_id_of
from router.mailbox.inbox.handling import InboxUnavailable
from router.mailbox.inbox.process import build_dead_mark
from router.mailbox.inbox.rules import InboxRules
from router.mailbox.inbox.status_writer import InboxStatusWriter
from router.mailbox.postgres import Database

STRANDED_FAULT = Fault("stranded", "delivered as often as allowed, and never settled")
NO_SUBJECT = "unreadable_subject"  # for a row whose subject no message can have
GONE_FAULT = Fault("stranded", "never settled, and its stream does not hold it any more")


class InboxMaxDeliverRecovery:
    """Writes the dead letters that no process lived to write, for one durable; calls `on_dead_letter` for each."""

    def __init__(
        self,
        jetstream: JetStream,
        database: Database,
        writer: InboxStatusWriter,
        letters: InboxDeadLetters,
        rules: InboxRules,
        *,
        on_dead_letter: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream = rules.stream
        self.durable = rules.durable
        self._jetstream = jetstream
        self._database = database
        self._writer = writer
        self._dead_letters = letters
        self._max_deliver = rules.max_deliver
        self._on_dead_letter = on_dead_letter

    async def handle(self, advisory: Message) -> Outcome:
        """Handle one advisory."""
        stored = await read_stranded(self._jetstream, self.stream, advisory)
        return await self.give_up(stored) if stored is not None else Done()

    async def give_up(self, stored: StoredMessage) -> Done:
        """Return the dead letter and then the row's mark for this message, unless it was processed. Raises InboxUnavailable."""
        message = self.to_message(stored)
        message_id = message_id_of(message)
        if not await self._is_open(message_id):
            return Done()
        return self._build_outcome(self._dead_letters.write(message, MAXDELIVER_EXHAUSTED, STRANDED_FAULT), message_id, STRANDED_FAULT)

    def give_up_row(self, row: InboxMessage) -> Done:
        """The same for a row whose message the stream does not hold any more."""
        message_id = str(row.message_id)
        subject = row.subject if ids.is_literal_subject(row.subject) else NO_SUBJECT
        message = self._message(subject, b"", {MESSAGE_ID: message_id}, 0, 0)
        return self._build_outcome(
            self._dead_letters.write(message, MAXDELIVER_EXHAUSTED, GONE_FAULT, is_whole=False), message_id, GONE_FAULT
        )

    def to_message(self, stored: StoredMessage) -> Message:
        """Build the message as its last delivery was."""
        return self._message(stored.subject, stored.data, stored.headers, stored.sequence, nanos(stored.time))

    def _message(self, subject: str, data: bytes, headers: Mapping[str, str], sequence: int, stored_ns: int) -> Message:
        times = self._max_deliver
        return Message(subject, data, headers, self.stream, self.durable, sequence, stored_ns, times, "", times)

    async def _is_open(self, message_id: str) -> bool:
        try:
            async with self._database.transaction() as session:
                return not await PostgresInboxAdapter(session).is_processed(message_id)
        except (DatabaseUnavailable, DatabaseRefused) as exc:
            raise InboxUnavailable(str(exc)) from exc

    def _build_outcome(self, letter: Effect, message_id: str, fault: Fault) -> Done:
        async def commit(_: Sequence[PublishAck]) -> None:
            await self._writer.write(build_dead_mark(message_id, MAXDELIVER_EXHAUSTED, fault))
            self._on_dead_letter()

        return Done((letter,), commit=commit)
