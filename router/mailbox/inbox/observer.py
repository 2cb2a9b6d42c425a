"""Count an inbox's work as plain figures, and log only what a person should know.

Delivery gives up a message that killed its process, without reading it: its dead letter is stored,
and this module marks its row.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from router.core.message import Message
from router.core.outcome import (
    MAXDELIVER_EXHAUSTED,
    PROCESSING_ERROR,
    VALIDATION_FAILED,
    Dead,
    Done,
    Outcome,
    Retry,
)
from router.delivery.consume.subscription import LoggingObserver
from router.mailbox.inbox.adapter import InboxStatusWriter
from router.mailbox.inbox.event import message_id_of
from router.mailbox.inbox.max_deliver_recovery import PROCESSED, STRANDED
from router.mailbox.inbox.process import build_dead_mark
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)


class InboxStats(Struct):
    """Since this process started."""

    settled: int = 0  # acknowledged, with any result
    duplicates: int = 0  # of these, those that were processed before
    dead_letters: int = 0  # of these, those in the dead letters
    failed: int = 0  # not acknowledged


# beside how messages end, and the reasons of dead letters
DUPLICATE, TRANSIENT = "duplicate", "transient"
CODES = (
    PROCESSED,
    DUPLICATE,
    TRANSIENT,
    STRANDED,
    VALIDATION_FAILED,
    PROCESSING_ERROR,
    MAXDELIVER_EXHAUSTED,
)


class InboxObserver(LoggingObserver):
    """The observer of the consumer, and its meter. `codes`: how often each result came,
    `router_inbox_handled_total{code}`.
    """

    def __init__(self, durable: str, writer: InboxStatusWriter) -> None:
        self.stats = InboxStats()
        # told from the start: a rate needs a zero to begin from
        self.codes: Counter[str] = Counter(dict.fromkeys(CODES, 0))
        self._known: set[tuple[str, int, int]] = set()  # in flight and processed before
        super().__init__(durable)
        self._writer = writer
        self._once = LogRateLimit(every_s=1.0)

    def on_duplicate(self, message: Message) -> None:
        self.stats.duplicates += 1
        self._known.add(_message_key(message))
        log.debug(events.DUPLICATE_DETECTED, consumer=self._durable, sequence=message.sequence)

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if not is_final:
            self.stats.failed += 1
            self.codes[TRANSIENT] += 1
            return
        self.stats.settled += 1
        is_known = _message_key(message) in self._known
        self._known.discard(_message_key(message))
        if isinstance(outcome, Done):
            self.codes[DUPLICATE if is_known else PROCESSED] += 1
        else:
            self._on_dead_letter(message, outcome)

    def on_recovered(self, code: str) -> None:
        """The recovery ended a message that the server delivers no more; `stranded`: its handler
        was not called any more.
        """
        self.codes[code] += 1

    def _on_dead_letter(self, message: Message, outcome: Outcome) -> None:
        self.stats.dead_letters += 1
        reason = outcome.reason if isinstance(outcome, Dead) else MAXDELIVER_EXHAUSTED
        self.codes[reason] += 1
        log.warning(
            events.DEAD_LETTER_STORED,
            consumer=self._durable,
            sequence=message.sequence,
            subject=message.subject,
            reason=reason,
        )
        if isinstance(outcome, Retry):
            self._writer.write(
                build_dead_mark(message_id_of(message), MAXDELIVER_EXHAUSTED, outcome.fault)
            )

    def on_handler_trouble(self, trouble: str | None) -> None:
        """The handler serves no event any more, and why; None: it serves again."""
        if trouble is not None:
            log.error(events.INBOX_UNSERVED, consumer=self._durable, cause=trouble)
        else:
            log.info(events.INBOX_SERVED, consumer=self._durable)

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        if self._once.allow(type(exc).__name__):
            log.error(
                events.HANDLER_FAILED,
                consumer=self._durable,
                sequence=message.sequence,
                error=type(exc).__name__,
            )


def _message_key(message: Message) -> tuple[str, int, int]:
    """A re-created stream starts its sequences again: the stored time distinguishes them."""
    return message.stream, message.sequence, message.stored_ns
