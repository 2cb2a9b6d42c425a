"""Read a message as the event that a handler gets (docs/reference/requirements.md#sd-32), or say
why it can never be one.

    headers Event-Type, Event-Version, Occurred-At, Correlation-Id, Causation-Id    else, what is missing:
    subject `{context}.event.{name}.v{n}`                                           name and version
    stream time                                                                     when it occurred
    Nats-Msg-Id                                                                     a UUID as it is, any other text derived (X1)

A malformed header counts as absent. The body is the payload, any JSON value, passed on byte for
byte. Nothing here reads the database: the table alone knows whether the event was handled before.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES, require_foreign_value
from router.contracts.exact_json import load_json
from router.contracts.headers import FIRST_STORED, MESSAGE_ID, first_stored_ms, traceparent_in
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, STAGE_SCHEMA, Malformed
from router.core import ids
from router.core.message import Message
from router.core.outcome import Fault
from router.mailbox.entities import EventSubject

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_VERSION = re.compile(r"[0-9]{1,9}")
_TYPE = re.compile(r"[\x21-\x7e]{1,256}")


class InboxEvent(Struct, frozen=True, gc=False):
    """One event as its handler gets it. Ids are UUIDs in lower case, `occurred_at` is RFC 3339;
    `body` is the payload's JSON.
    """

    message_id: str
    subject: str
    event_type: str
    event_version: int
    occurred_at: str
    correlation_id: str | None
    causation_id: str | None
    body: bytes
    traceparent: str | None = None

    @property
    def payload(self) -> Any:
        """Whole numbers exactly, decimals as floats; `body` has every digit
        (docs/reference/contracts.md#payload-numbers).
        """
        return load_json(self.body)


def read_event(
    message: Message, max_bytes: int = MAX_PAYLOAD_BYTES, max_depth: int = MAX_DEPTH
) -> InboxEvent | Fault:
    """Read the event; a Fault when a handler can never get it: no event type anywhere, or a body
    that is not JSON.

    Rule: docs/reference/requirements.md#sd-32.
    """
    headers = message.headers
    named = _subject_of(message.subject)
    event_type = _match(_TYPE, headers.get("Event-Type")) or (
        named.name if named is not None else None
    )
    # a row could not hold what a sender may put there
    if not ids.is_literal_subject(message.subject):
        return _invalid("subject", "the subject holds what no subject may")
    if event_type is None:
        return _invalid(
            "event_type", "neither a header Event-Type nor a subject {context}.event.{name}.v{n}"
        )
    if (fault := _unreadable(message.data, max_bytes, max_depth)) is not None:
        return fault
    version = _match(_VERSION, headers.get("Event-Version")) or (
        named.version if named is not None else 1
    )
    return InboxEvent(
        message_id_of(message),
        message.subject,
        event_type,
        int(version),
        _instant(headers.get("Occurred-At")) or _stream_time(message),
        _uuid(headers.get("Correlation-Id")),
        _uuid(headers.get("Causation-Id")),
        message.data,
        traceparent_in(headers),
    )


def message_id_of(message: Message) -> str:
    """The row's key: the message id when it is a UUID, else one derived from it, or from the place
    in the stream.

    Rule: docs/reference/requirements.md#x1.
    """
    given = message.headers.get(MESSAGE_ID, "")
    if (known := _uuid(given)) is not None:
        return known
    if given:
        # half a surrogate pair is no UTF-8
        return ids.derived_uuid("inbox", given.encode("utf-8", "backslashreplace").decode())
    return ids.derived_uuid("inbox", message.stream, str(message.sequence), str(message.stored_ns))


def _unreadable(data: bytes, max_bytes: int, max_depth: int) -> Fault | None:
    try:
        require_foreign_value(data, max_bytes, max_depth)
    except Malformed as exc:
        return exc.as_fault()
    return None


def _invalid(field: str, text: str) -> Fault:
    return Fault(SCHEMA_VALIDATION_FAILED, text, field, STAGE_SCHEMA)


def _subject_of(subject: str) -> EventSubject | None:
    try:
        return EventSubject.read(subject)
    except ValueError:
        return None


def _match(rule: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and rule.fullmatch(text) else None


def _uuid(text: str | None) -> str | None:
    return text.lower() if text is not None and _UUID.fullmatch(text) else None


def _instant(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return text if parsed.tzinfo is not None else None


def _stream_time(message: Message) -> str:
    """The time of the first storing, which a replay names in a header."""
    seconds = (
        first_stored_ms(message) / 1e3 if FIRST_STORED in message.headers else message.stored_at
    )
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
