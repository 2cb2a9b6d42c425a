"""The inbox's dead letters: EVT-047-002 MessageDeadLettered and the message itself, in one
(docs/reference/contracts.md#inbox-dead-letters). And the text that is kept of a failure.

    subject   {context}.dlq.{original_subject}, in {CONTEXT}_DLQ; the context is the consumer's own
    id        dlq:{durable}:{message_id}: one message has one dead letter, whichever process writes
              it
    body      message_id, original_subject, reason, attempts; then every field of our dead letters,
              `message{…}` among them

Delivery stores them before it acks anything; `router dlq` reads them like all others.
"""

from __future__ import annotations

import orjson
from msgspec.structs import replace

from router.contracts.dead_letter import DeadLetterWriter
from router.core.errors import RouterError
from router.core.masking import hide_keys, hide_logins, printable, shorten
from router.core.message import Effect, Message
from router.core.outcome import Fault
from router.core.user_functions import text_of
from router.delivery.wire.topology import StreamSpec
from router.mailbox.errors import DatabaseRefused
from router.mailbox.inbox.event import message_id_of

# bytes that the event's four names and values add to a dead letter, its subject and reason apart
_OWN_FIELDS = 256


class InboxDeadLetters:
    """Writes the dead letters of one inbox. `max_bytes`: the connection's `max_payload`."""

    def __init__(self, *, context: str, durable: str, node_id: str, max_bytes: int) -> None:
        self._durable = durable
        self._writer = DeadLetterWriter(
            node_id=node_id,
            max_bytes=lambda: max_bytes,
            subject_pattern=pattern_of(context),
            extract=lambda message: {"message_id": message_id_of(message)},
        )

    def write(
        self, message: Message, reason: str, fault: Fault, *, is_whole: bool = True
    ) -> Effect:
        """Write a consumer's dead letter; not whole: the message itself is gone."""
        reserved = _OWN_FIELDS + len(message.subject) + len(reason)
        dead_letter = self._writer.write(
            message, reason, fault, is_whole=is_whole, reserved=reserved
        )
        message_id = message_id_of(message)
        event = {
            "message_id": message_id,
            "original_subject": message.subject,
            "reason": reason,
            "attempts": message.attempts,
        }
        return replace(
            dead_letter,
            id=f"dlq:{self._durable}:{message_id}",
            data=orjson.dumps({**event, **orjson.loads(dead_letter.data)}),
        )


def pattern_of(context: str) -> str:
    """The subject of a context's dead letters, with `{original_subject}`."""
    return f"{context}.dlq.{{original_subject}}"


def dead_letters_stream(context: str, replicas: int = 1) -> StreamSpec:
    """{CONTEXT}_DLQ (docs/reference/contracts.md#dead-letter-streams): nothing else binds these
    subjects, and an unbound publish would be lost.
    """
    return StreamSpec(
        name=f"{context.upper()}_DLQ",
        subjects=(f"{context}.dlq.>",),
        max_age=30 * 86_400.0,
        max_bytes=1024**3,
        discard="new",
        duplicate_window=3600.0,
        replicas=replicas,
    )


# -- The text that is kept of a handler's failure, with its row and its dead letter: the kind of
# failure, and its message.
#
#     Poison("no customer")     no customer
#     ValueError("no stock")    ValueError: no stock
#     a database's refusal      PostgreSQL 23505 orders_pkey: its own text may hold a value, and is
#                               left out
#
# Both places hold the event as well, so the text may quote it; no log line does. Logins and keys
# are hidden, a long text is cut, and characters that a column of PostgreSQL cannot hold are
# escaped.


MAX_FAILURE_TEXT = 500  # characters


def describe_failure(exc: BaseException) -> str:
    """Raises nothing, even if the exception's own text raises."""
    kind = type(exc).__name__
    if isinstance(exc, DatabaseRefused):
        return f"PostgreSQL {exc.sqlstate}{f' {exc.constraint}' if exc.constraint else ''}"
    text = printable(hide_logins(hide_keys(shorten(text_of(exc), MAX_FAILURE_TEXT))))
    if isinstance(exc, RouterError):
        return text or exc.code
    return f"{kind}: {text}" if text else kind
