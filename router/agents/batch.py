"""Steps 2 to 4 of the protocol for many messages at once, in the store's thread: two commits for a
batch of any size.

    read -> dedupe -> [persist] -> apply each -> [state, messages, status] -> an outcome each

    applied    send its unsent messages once more, ack      ("Duplicate detected")
    dead       send its dead letter once more, term;  replayed by an operator (`x-replay-count`):
                                                      handle it as new
    received   a crash or a failure interrupted it: one more attempt at the stored content, whatever
               this message holds,
               or a dead letter when no attempt is left

A message that fails is rolled back alone: the others of its batch are committed. An error of SQLite
is no message's fault: this raises StoreFailed, and no message gets an outcome. First stands one
message, from its bytes to a row of the store; then the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from router.agents.adapter import AgentAdapter, Context, read_messages
from router.agents.database import StoreFailed
from router.agents.envelope import Envelope, read_envelope, stored_envelope
from router.agents.outgoing import OutputRules, PublishAckBuffer, build_outgoing_row, effect_of
from router.agents.schema import DEAD, RECEIVED
from router.agents.state import StateTransaction
from router.agents.store import KnownEvent, NewEvent, OutgoingRow, ResumableEvent, Store
from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.malformed import Malformed
from router.core.crashpoints import crashpoint
from router.core.errors import Poison
from router.core.message import Message
from router.core.outcome import (
    MAXDELIVER_EXHAUSTED,
    PROCESSING_ERROR,
    VALIDATION_FAILED,
    Commit,
    Dead,
    Done,
    Fault,
    Outcome,
    Retry,
)
from router.core.user_functions import HandlerMisused, contain_exit, require_finished, text_of
from router.process.observability import events, logs

# -- The batch.

log = logs.logger(__name__)

AGENT_FAILED = Fault("internal", "the agent failed")
ATTEMPTS_SPENT = Fault(
    "internal", "begun as often as allowed, and never applied: the process died on it"
)
DEAD_BEFORE = Fault("internal", "it was given up before")


class BatchProcessor:
    """Applies an agent's messages to its store. `limit`: attempts, the first included; `mark_dead`
    makes the commit after a dead letter.

    `max_bytes`: of a message that it accepts.
    """

    def __init__(
        self,
        adapter: AgentAdapter,
        store: Store,
        publish_acks: PublishAckBuffer,
        *,
        limit: int,
        rules: OutputRules,
        mark_dead: Callable[[int], Commit],
        max_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        self._adapter = adapter
        self._agent = adapter.name
        self._store = store
        self._publish_acks = publish_acks
        self._limit = limit
        self._rules = rules
        self._mark_dead = mark_dead
        self._max_bytes = max_bytes
        # messages that were applied before; written in the store's thread alone
        self.duplicates = 0

    def handle(self, messages: Sequence[Message]) -> list[Outcome]:
        """An outcome for each message, in their order. Raises StoreFailed, and HandlerMisused for a
        method that returns nonsense.
        """
        items = [read_item(message, self._max_bytes) for message in messages]
        crashpoint("agent_received")
        for unique in split_by_key([item for item in items if isinstance(item, BatchItem)]):
            self._process(unique)
        return [
            item if isinstance(item, Dead) else item.outcome or Retry(AGENT_FAILED)
            for item in items
        ]

    def resume(self, row: ResumableEvent) -> bool:
        """Make one more attempt at an event received before; return whether it is applied now. It
        must be the store's only work.
        """
        item = BatchItem(None, stored_envelope(row.content), row.place, row.attempts + 1)
        with self._store.transaction():
            self._store.begin_again([row.place])
        self._apply([item])
        return isinstance(item.outcome, Done)

    def _process(self, items: Sequence[BatchItem]) -> None:
        """Process items of different keys."""
        known_events = self._store.find([item.envelope.idempotency_key for item in items])
        crashpoint("agent_deduplicated")
        begun = self._persist(items, known_events)
        crashpoint("agent_persisted")
        if begun:
            self._apply(begun)
        self._settle_applied([item for item in items if item.outcome is None])

    # -- dedupe and persist ------------------------------------------------------------------------

    def _persist(
        self, items: Sequence[BatchItem], known_events: dict[str, KnownEvent]
    ) -> list[BatchItem]:
        new, again, reset = [], [], []
        for item in items:
            row = known_events.get(item.envelope.idempotency_key)
            if row is None:
                item.place = self._store.next_place()
                new.append(item)
            else:
                item.place, item.attempt = row.place, row.attempts + 1
                if row.status == RECEIVED and row.attempts < self._limit:
                    again.append(item)
                elif row.status == RECEIVED:
                    item.outcome = Dead(
                        ATTEMPTS_SPENT, MAXDELIVER_EXHAUSTED, commit=self._mark_dead(row.place)
                    )
                elif row.status == DEAD and is_replay(item.message):
                    item.attempt = 1
                    reset.append(item)
                elif row.status == DEAD:
                    item.outcome = Dead(DEAD_BEFORE, PROCESSING_ERROR)
        marks = self._publish_acks.take()
        if new or again or reset or marks:
            with self._store.transaction():
                self._store.receive([row_of(item) for item in new])
                self._store.begin_again([item.place for item in again])
                self._store.reset_dead([row_of(item) for item in reset])
                self._store.mark(marks)
        self._take_stored_content(again)
        return [*new, *again, *reset]

    def _take_stored_content(self, items: Sequence[BatchItem]) -> None:
        """Another message may have the same key: apply what the store holds, or a replay of the
        store would differ.
        """
        if not items:
            return
        contents = self._store.contents_of([item.place for item in items])
        for item in items:
            item.envelope = stored_envelope(contents[item.place])

    def _settle_applied(self, items: Sequence[BatchItem]) -> None:
        """Finish items that were applied before: their messages may not be in their stream yet."""
        if not items:
            return
        unsent = self._store.list_unsent_of([item.place for item in items])
        self.duplicates += len(items)
        for item in items:
            log.info(
                events.DUPLICATE_DETECTED,
                idempotency_key=item.envelope.idempotency_key,
                agent=self._agent,
            )
            self._finish(item, [message for message in unsent if message.place == item.place])

    # -- apply -------------------------------------------------------------------------------------

    def _apply(self, items: Sequence[BatchItem]) -> None:
        try:
            with self._store.transaction():
                state = StateTransaction(self._store.read_state)
                applied = [item for item in items if self._apply_one(item, state)]
                self._store.apply(
                    [item.place for item in applied],
                    [message for item in applied for message in item.outgoing],
                    state.rows,
                )
                crashpoint("agent_applying")
        except HandlerMisused:
            self._withdraw_attempts(items)
            raise
        self._store.on_commit(state.rows)
        crashpoint("agent_applied")
        for item in applied:
            self._finish(item, item.outgoing)

    def _withdraw_attempts(self, items: Sequence[BatchItem]) -> None:
        """The agent ends, and this attempt does not count: what was begun is applied once `apply`
        is mended.
        """
        with self._store.transaction():
            self._store.withdraw_attempts([item.place for item in items])

    def _apply_one(self, item: BatchItem, state: StateTransaction) -> bool:
        try:
            with contain_exit:
                require_finished("receive", self._adapter.receive(item.envelope))  # type: ignore[func-returns-value]  # an author may do so
                answer = self._adapter.apply(
                    Context(self._agent, item.envelope.idempotency_key, state, item.attempt),
                    item.envelope,
                )
            item.outgoing = [
                build_outgoing_row(
                    self._agent,
                    item.envelope,
                    message,
                    place=item.place,
                    number=number,
                    rules=self._rules,
                )
                for number, message in enumerate(read_messages(answer))
            ]
        except (StoreFailed, HandlerMisused):
            raise
        except Poison as exc:
            state.rollback()
            item.outcome = Dead(
                Fault(exc.code, text_of(exc)), PROCESSING_ERROR, commit=self._mark_dead(item.place)
            )
            return False
        except Exception as exc:  # the author's code may raise anything
            state.rollback()
            item.outcome = self._on_failure(item, exc)
            return False
        state.commit()
        return True

    def _on_failure(self, item: BatchItem, exc: Exception) -> Outcome:
        """Tried again while there are attempts, and deliveries by the server, left
        (docs/reference/requirements.md#mf-8).
        """
        log.warning(
            events.HANDLER_FAILED,
            agent=self._agent,
            attempt=item.attempt,
            error=type(exc).__name__,
            exc_info=exc,
        )
        deliveries = item.message.deliveries if item.message is not None else 0
        if max(item.attempt, deliveries) < self._limit:
            return Retry(AGENT_FAILED)
        return Dead(AGENT_FAILED, MAXDELIVER_EXHAUSTED, commit=self._mark_dead(item.place))

    def _finish(self, item: BatchItem, messages: Sequence[OutgoingRow]) -> None:
        self._publish_acks.expect(messages)
        item.outcome = Done(tuple([effect_of(message) for message in messages]))


# -- One message in a batch.

REPLAY_COUNT = "x-replay-count"


class BatchItem(Struct, gc=False):
    """One message in a batch. `message` None: it is resumed from the store."""

    message: Message | None
    envelope: Envelope
    place: int = 0
    attempt: int = 1
    outcome: Outcome | None = None
    outgoing: Sequence[OutgoingRow] = ()


def read_item(message: Message, max_bytes: int = MAX_PAYLOAD_BYTES) -> BatchItem | Dead:
    """Returns Dead for a message that can never be read."""
    try:
        return BatchItem(message, read_envelope(message, max_bytes))
    except Malformed as exc:
        return Dead(exc.as_fault(), VALIDATION_FAILED)


def split_by_key(items: list[BatchItem]) -> Iterator[list[BatchItem]]:
    """Split so that no part holds two messages of one key: the second one must find the result of
    the first.
    """
    while items:
        first: dict[str, BatchItem] = {}
        later = [
            item
            for item in items
            if first.setdefault(item.envelope.idempotency_key, item) is not item
        ]
        yield list(first.values())
        items = later


def row_of(item: BatchItem) -> NewEvent:
    """The row that is stored of it."""
    message = item.message
    assert message is not None  # a resumed item is in the store already  # noqa: S101
    return NewEvent(
        item.place,
        item.envelope.idempotency_key,
        message.stream,
        message.sequence,
        message.subject,
        item.envelope.canonical,
    )


def is_replay(message: Message | None) -> bool:
    """Whether an operator sent it again, out of the dead letters."""
    return message is not None and REPLAY_COUNT in message.headers
