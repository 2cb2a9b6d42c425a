"""Parse one stored message as a DeadLetter. It never raises: an unreadable dead letter is shown as
it is.

Ours are written by `contracts.dead_letter` (docs/reference/contracts.md#dead-letters), but any
client may publish to a dead-letter subject. Workers put their ExecResults on `caf.exec.dlq.v1`, and
what they cannot read on `caf.deadletter.v1`. So every field may be absent or of another kind, and
then counts as absent. Below stands how a DeadLetter is told in fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from router.contracts.codec import bytes_of, check_limits, text_of
from router.contracts.exact_json import load_written
from router.contracts.headers import read_first_stored
from router.contracts.malformed import Malformed
from router.contracts.result import RESULT
from router.contracts.unread_report import UNREAD_SUBJECT, find_report
from router.contracts.worker import read_body
from router.core.header_names import read_headers, tell_headers
from router.core.outcome import PROCESSING_ERROR
from router.delivery.wire.api import StoredMessage

WORKERS_SUBJECT = "caf.exec.dlq.v1"
WORKERS_SUBJECTS = (WORKERS_SUBJECT, UNREAD_SUBJECT)
DEAD_LETTER_SUFFIX = ".dlq"
UNREADABLE = "unreadable"

_OMITTED = "the dead letter was written without its message"
_TRUNCATED = "too large for a dead letter; the original stands in its stream while that keeps it"


class DeadLetterSource(Struct, frozen=True):
    """Where the message that failed stands: replay takes the original from here."""

    stream: str = ""
    consumer: str = ""
    sequence: int = 0
    deliveries: int = 0
    attempts: int = 0
    # of these: the first, if the process that had it died and left no word
    attempts_unconfirmed: int = 0


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A dead letter as far as it could be read. `payload` None: it is not in the dead letter,
    `payload_note` says why.
    """

    sequence: int
    stored_at: str  # the server's RFC 3339 text
    subject: str  # the dead-letter subject
    original_subject: str
    reason: str  # validation_failed | maxdeliver_exhausted | processing_error | unreadable
    msg_id: str | None = None
    tenant_id: str | None = None
    request_id: str | None = None
    assignment_id: str | None = None
    trace_id: str | None = None
    code: str | None = None
    message: str | None = None
    field: str | None = None
    stage: str | None = None
    source: DeadLetterSource = DeadLetterSource()
    id: str | None = None  # the dead letter's own Nats-Msg-Id
    payload_hash: str | None = None  # the original's, sha256
    headers: Mapping[str, str] = {}  # the original's, repeated ones too
    payload: bytes | None = None  # the original's
    payload_note: str | None = None
    raw: bytes = b""
    received_ms: int | None = None  # when the original was stored, milliseconds since the epoch

    @property
    def stored(self) -> datetime | None:
        return instant(self.stored_at)

    @property
    def size(self) -> int:
        """Bytes as it is stored."""
        return len(self.raw)


def parse(stored: StoredMessage) -> DeadLetter:
    """Whatever is stored there, as a DeadLetter."""
    body = _object(stored.data)
    if stored.subject == WORKERS_SUBJECT:
        return _parse_result(stored)
    if stored.subject == UNREAD_SUBJECT:
        return _parse_unread(stored, body or {})
    if body is None or not _text(body, "reason"):
        return _parse_unreadable(stored)
    error, original = (
        _part(body, "validation_error") or _part(body, "last_error"),
        _part(body, "message"),
    )
    payload, note = _payload(body, original)
    return DeadLetter(
        sequence=stored.sequence,
        stored_at=stored.time,
        subject=stored.subject,
        original_subject=_text(body, "original_subject") or _strip_suffix(stored.subject),
        reason=_text(body, "reason") or UNREADABLE,
        msg_id=_text(body, "msg_id"),
        tenant_id=_text(body, "tenant_id"),
        request_id=_text(body, "request_id"),
        assignment_id=_text(body, "assignment_id"),
        trace_id=_text(body, "trace_id"),
        code=_text(error, "code"),
        message=_text(error, "message"),
        field=_text(error, "field"),
        stage=_text(_part(body, "context"), "validation_stage"),
        source=_source(_part(body, "source")),
        id=stored.headers.get("Nats-Msg-Id"),
        payload_hash=_text(body, "original_payload_hash"),
        headers=read_headers(_part(original, "headers")),
        payload=payload,
        payload_note=note,
        raw=stored.data,
        received_ms=_milliseconds(body, "received_at"),
    )


def instant(text: str) -> datetime | None:
    """The server's time text; it has nanoseconds, which Python cuts to microseconds."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _parse_result(stored: StoredMessage) -> DeadLetter:
    """A result that a worker gave up on, in any of its forms: listed as `processing_error`
    (docs/reference/contracts.md#workers-dead-letters).
    """
    try:
        body: Mapping[str, Any] = read_body(stored.data, RESULT)
    except Malformed:
        body = {}
    return _parse_worker_report(
        stored, body, _text(body, "error_code"), _text(body, "error_message")
    )


def _parse_unread(stored: StoredMessage, body: Mapping[str, Any]) -> DeadLetter:
    """What a worker could not read; it names the subject that the bytes came on, and seldom an id."""
    data = find_report(body)
    source = _text(_part(data, "payload_ref"), "subject")
    message = f"a worker could not read a message on {source}" if source is not None else None
    return _parse_worker_report(
        stored, data, _text(data, "reason"), _text(data, "message") or message
    )


def _parse_worker_report(
    stored: StoredMessage, body: Mapping[str, Any], code: str | None, message: str | None
) -> DeadLetter:
    return DeadLetter(
        sequence=stored.sequence,
        stored_at=stored.time,
        subject=stored.subject,
        original_subject=stored.subject,
        reason=PROCESSING_ERROR,
        id=stored.headers.get("Nats-Msg-Id"),
        msg_id=stored.headers.get("Nats-Msg-Id"),
        tenant_id=_text(body, "tenant_id"),
        request_id=_text(body, "request_id"),
        assignment_id=_text(body, "assignment_id"),
        trace_id=_text(body, "trace_id"),
        code=code,
        message=message,
        headers=stored.headers,
        payload=stored.data,
        raw=stored.data,
    )


def _parse_unreadable(stored: StoredMessage) -> DeadLetter:
    return DeadLetter(
        sequence=stored.sequence,
        stored_at=stored.time,
        subject=stored.subject,
        original_subject=_strip_suffix(stored.subject),
        reason=stored.headers.get("x-dlq-reason") or UNREADABLE,
        msg_id=stored.headers.get("x-original-msg-id"),
        tenant_id=stored.headers.get("tenant_id"),
        trace_id=stored.headers.get("trace_id"),
        headers=stored.headers,
        payload=stored.data,
        payload_note="not a dead letter of ours: these are its own bytes",
        raw=stored.data,
    )


def _payload(
    body: Mapping[str, Any], original: Mapping[str, Any]
) -> tuple[bytes | None, str | None]:
    text = original.get("payload")
    if not isinstance(text, str):
        return None, _TRUNCATED if body.get("payload_truncated") else _OMITTED
    try:
        return bytes_of(text, original.get("payload_encoding")), None
    except ValueError:
        return text.encode(
            "utf-8", "replace"
        ), "not what its payload_encoding says: shown as it stands"


def _source(part: Mapping[str, Any]) -> DeadLetterSource:
    numbers = (
        part.get(name) for name in ("sequence", "deliveries", "attempts", "attempts_unconfirmed")
    )
    return DeadLetterSource(
        _text(part, "stream") or "",
        _text(part, "consumer") or "",
        *(n if isinstance(n, int) else 0 for n in numbers),
    )


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _part(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _text(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    return value if isinstance(value, str) and value else None


def _milliseconds(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return read_first_stored(str(value)) if type(value) is int else None


def _strip_suffix(subject: str) -> str:
    return subject.removesuffix(DEAD_LETTER_SUFFIX)


# -- A dead letter in fields, for programs. The payload is text, or base64 with `payload_encoding`
# beside it, as in a dead letter (docs/reference/contracts.md#dead-letters).


Fields = dict[str, Any]


def as_fields(dead_letter: DeadLetter) -> Fields:
    """Every field that is present, for programs."""
    names = (name for name in dead_letter.__struct_fields__ if name not in ("raw", "payload"))
    fields: Fields = msgspec.to_builtins({name: getattr(dead_letter, name) for name in names})
    fields["headers"] = tell_headers(dead_letter.headers)
    if dead_letter.payload is not None:
        fields["payload"], fields["payload_encoding"] = text_of(dead_letter.payload)
    return {name: value for name, value in fields.items() if value not in (None, {})}


def as_full_fields(dead_letter: DeadLetter) -> Fields:
    """The same, and beside it the dead letter as it is stored; None when that is not JSON, or nests
    deeper than JSON can be written.
    """
    try:
        check_limits(dead_letter.raw, len(dead_letter.raw))
        stored = load_written(dead_letter.raw)
    except (Malformed, ValueError):
        stored = None
    return {**as_fields(dead_letter), "letter": stored}
