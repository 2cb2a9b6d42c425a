"""The dead letter: one format for every BeamLine subject, a superset of both that the
specifications show (docs/reference/contracts.md#dead-letters). And the writer of one consumer's
dead letters.

This file writes a dead letter; delivery stores it before the message is acked. No content of a
message may prevent its dead letter: invalid text is replaced, and parts that are too large are left
out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contracts import headers as contract
from router.contracts.codec import text_of
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, VALIDATION_CODES
from router.contracts.unread_report import UNREAD_SUBJECT
from router.core import ids
from router.core.clock import now_ms
from router.core.header_names import tell_headers
from router.core.masking import MASK, is_masked_key, shorten
from router.core.message import Effect, Message
from router.core.outcome import VALIDATION_FAILED, Fault

# dead letters of workers: assignments given up, and unreadable ones
WORKER_DEAD_LETTER_SUBJECTS = ("caf.exec.dlq.v1", UNREAD_SUBJECT)
DEFAULT_SUBJECT_PATTERN = "{original_subject}.dlq"
KEPT_BYTES = 64 * 1024  # of a payload, where the stream that it came from keeps the whole of it
# for everything in a dead letter but the payload: the headers of a message may be as large as the
# server bears
_BESIDE_BYTES = 32 * 1024
MAX_MESSAGE_TEXT = 2_000  # characters of a fault's own words: some quote what they were given
# a sender's Nats-Msg-Id may be as long as a payload; a dead letter repeats it four times
_MAX_ID = 512
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
# the header block's first line and the header of the dead letter's own id, beside the id
_FRAME_BYTES = 64


def build_dead_letter(
    message: Message,
    reason: str,
    fault: Fault,
    *,
    node_id: str,
    now_ms: int,
    max_bytes: int,
    payload_bytes: int = KEPT_BYTES,
    include_message: bool = True,
    subject_pattern: str = DEFAULT_SUBJECT_PATTERN,
    seen: Mapping[str, str] | None = None,
) -> Effect:
    """The dead letter for one message, ready to be stored.

    `seen` holds the well-formed ids that could be read (`extract`); `now_ms` is when it is made,
    milliseconds. A payload of more than `payload_bytes` is left out, or a few large messages would
    fill the stream of dead letters; so is what does not fit beside it, or into `max_bytes`, the
    connection's `max_payload`, which counts headers too: `message.payload` first, then `message` as
    a whole. `payload_truncated` says so, `source` where the original stands as long as its stream
    keeps it, `original_payload_hash` and `original_payload_bytes` what it was.
    """
    seen = seen or {}
    msg_id = _msg_id(message, seen)
    headers = _headers(message, reason, msg_id, seen)
    dead_letter_id = (
        f"dlq:{message.stream}:{message.consumer}:{message.sequence}:{message.stored_ns}"
    )
    room = (
        max_bytes
        - _FRAME_BYTES
        - len(dead_letter_id)
        - sum(len(name) + len(value) + 4 for name, value in headers.items())
    )
    body = {
        **_describe_message(message, reason, msg_id, seen),
        **_describe_fault(reason, fault),
        "context": _context(fault, msg_id, seen),
        "source": _source(message),
        "timestamp": now_ms,
        "router_node_id": node_id,
    }
    # twice: base64 and escapes make a payload longer
    room = min(room, 2 * payload_bytes + _BESIDE_BYTES)
    data = (
        _fit(body, message, msg_id, payload_bytes, room) if include_message else orjson.dumps(body)
    )
    return Effect(
        dead_letter_subject(message.subject, subject_pattern),
        data,
        dead_letter_id,
        headers,
        is_dead_letter=True,
    )


def leave_out_payload(dead_letter: Effect) -> Effect | None:
    """The dead letter without its message, for a stream that takes none so large; None: it has
    none, so nothing can be left out.
    """
    body = _read_object(dead_letter.data)
    message = body.pop("message", None)
    if not isinstance(message, dict):
        return None
    if isinstance(payload := message.get("payload"), str):
        whole = base64.b64decode(payload) if "payload_encoding" in message else payload.encode()
        body.update(payload_truncated=True, original_payload_bytes=len(whole))
    return replace(dead_letter, data=orjson.dumps(body))


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def dead_letter_subject(original_subject: str, pattern: str = DEFAULT_SUBJECT_PATTERN) -> str:
    """Where dead letters of a subject go: `{original_subject}.dlq`, or one subject for all of them."""
    return pattern.replace("{original_subject}", original_subject)


def _describe_message(
    message: Message, reason: str, msg_id: str, seen: Mapping[str, str]
) -> dict[str, object]:
    return {
        "original_subject": _text(message.subject),
        "msg_id": msg_id,
        "reason": reason,
        "error_code": reason.upper(),
        "received_at": message.stored_ms,
        **_present(seen, "trace_id", "tenant_id", "request_id", "assignment_id"),
        "original_payload_hash": ids.sha256_hex(message.data),
    }


def _describe_fault(reason: str, fault: Fault) -> dict[str, object]:
    if reason != VALIDATION_FAILED:
        return {"last_error": {"code": fault.code, "message": _text(shorten(fault.message))}}
    code = fault.code if fault.code in VALIDATION_CODES else SCHEMA_VALIDATION_FAILED
    error = {"code": code, "message": _text(shorten(fault.message)), "severity": "error"}
    if fault.field is not None:
        error["field"] = fault.field
    return {"validation_error": error}


def _context(fault: Fault, msg_id: str, seen: Mapping[str, str]) -> dict[str, str]:
    context = {**_present(seen, "tenant_id", "run_id", "trace_id"), "msg_id": msg_id}
    if fault.stage is not None:
        context["validation_stage"] = fault.stage
    return context


def _source(message: Message) -> dict[str, object]:
    return {
        "stream": message.stream,
        "consumer": message.consumer,
        "sequence": message.sequence,
        "deliveries": message.deliveries,
        "attempts": message.attempts,
        **({"attempts_unconfirmed": 1} if message.is_first_assumed else {}),
    }


def _fit(
    body: dict[str, Any], message: Message, msg_id: str, payload_bytes: int, room: int
) -> bytes:
    """As much of the message as may stand in its dead letter."""
    shell = _shell(message, msg_id)
    if (
        len(message.data) <= payload_bytes
        and len(data := orjson.dumps({**body, "message": {**shell, **_payload(message)}})) <= room
    ):
        return data
    cut = {**body, "payload_truncated": True, "original_payload_bytes": len(message.data)}
    data = orjson.dumps({**cut, "message": shell})
    return data if len(data) <= room else orjson.dumps(cut)


def _shell(message: Message, msg_id: str) -> dict[str, Any]:
    headers = {
        _text(name): _header(name, value) for name, value in tell_headers(message.headers).items()
    }
    return {"id": msg_id, "subject": _text(message.subject), "headers": headers}


def _header(name: str, value: str | Sequence[str]) -> str | list[str]:
    """A list where the message has it several times."""
    if not isinstance(value, str):
        return [_text(MASK if is_masked_key(name) else item) for item in value]
    return MASK if is_masked_key(name) else _text(value)


def _payload(message: Message) -> dict[str, str]:
    payload, encoding = text_of(message.data)
    return (
        {"payload": payload}
        if encoding is None
        else {"payload": payload, "payload_encoding": encoding}
    )


def _headers(message: Message, reason: str, msg_id: str, seen: Mapping[str, str]) -> dict[str, str]:
    headers = {
        "x-dlq-reason": reason,
        "x-original-msg-id": _UNPRINTABLE.sub("?", msg_id),
        **_present(seen, "trace_id", "tenant_id"),
    }
    traceparent = contract.traceparent_in(message.headers)
    if traceparent is not None:
        headers["traceparent"] = traceparent
    return headers


def _msg_id(message: Message, seen: Mapping[str, str]) -> str:
    given = _text(message.headers.get(contract.MESSAGE_ID, ""))[:_MAX_ID]
    return (
        given
        or seen.get("message_id")
        or seen.get("msg_id")
        or f"{message.stream}:{message.sequence}"
    )


def _present(seen: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: seen[name] for name in names if name in seen}


def _text(value: str) -> str:
    """Text that JSON can hold: a lone surrogate, all that is left of bytes that were no UTF-8,
    becomes `?`.
    """
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


# -- Writes the dead letters of one consumer: the router's, the bus's, an agent's and an inbox's
# have one format (`dead_letter`).


class DeadLetterWriter(Struct, frozen=True, kw_only=True):
    """`extract`: the ids of a message; `max_bytes`: the connection's `max_payload`, which a
    reconnect may change.
    """

    node_id: str
    max_bytes: Callable[[], int]
    subject_pattern: str
    extract: Callable[[Message], Mapping[str, str]]
    payload_bytes: int = KEPT_BYTES
    include_message: bool = True

    def write(
        self,
        message: Message,
        reason: str,
        fault: Fault,
        *,
        seen: Mapping[str, str] | None = None,
        is_whole: bool = True,
        reserved: int = 0,
    ) -> Effect:
        """`seen`: ids that the caller has extracted; not `is_whole`: without the message;
        `reserved`: bytes that the caller will add.
        """
        return build_dead_letter(
            message,
            reason,
            fault,
            node_id=self.node_id,
            now_ms=now_ms(),
            max_bytes=self.max_bytes() - reserved,
            payload_bytes=self.payload_bytes,
            include_message=self.include_message and is_whole,
            subject_pattern=self.subject_pattern,
            seen=self.extract(message) if seen is None else seen,
        )
