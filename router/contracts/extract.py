"""Extract the ids of a message that cannot be read as a whole, so that people can find it again.

Only the failure path comes here. It never raises, and it returns nothing that is not a well-formed
id. The same precedence as the reader's: header, top level, `message`
(docs/reference/contracts.md#fields).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from router.contracts import headers as contract
from router.contracts.flow import read_body
from router.contracts.malformed import Malformed
from router.contracts.worker import MessageType
from router.contracts.worker import read_body as read_worker_body
from router.core import ids
from router.core.message import Message

MAX_EXTRACT_BYTES = 65_536  # bytes that are read for their ids alone
_FIELDS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("tenant_id", ids.is_scoped),
    ("trace_id", ids.is_opaque),
    ("request_id", ids.is_opaque),
    ("message_id", ids.is_opaque),
    ("msg_id", ids.is_opaque),
    ("assignment_id", ids.is_opaque),
    ("run_id", ids.is_opaque),
)


def extract_ids(message: Message, kind: MessageType | None = None) -> dict[str, str]:
    """Ids found in headers and payload, by name: tenant_id, trace_id, request_id, message_id,
    msg_id, assignment_id, run_id.

    `kind` is what the subscription takes, for bytes do not tell which protobuf they are; None:
    decide requests.
    """
    try:
        body = (
            read_body(message.data, message.headers)
            if kind is None
            else read_worker_body(message.data, kind)
        )
    except Malformed:
        body = {}
    return ids_in(message.headers, body)


def extract_request_ids(data: bytes, headers: Mapping[str, str]) -> dict[str, str]:
    """The ids of a decide request; of one larger than MAX_EXTRACT_BYTES, those of its headers only."""
    try:
        body = read_body(data, headers, MAX_EXTRACT_BYTES)
    except Malformed:
        body = {}
    return ids_in(headers, body)


def find_answer_id(found: Mapping[str, str], headers: Mapping[str, str], otherwise: str) -> str:
    """The id of an answer that refuses, never empty (docs/reference/contracts.md#refusal-id).

    `found`: the ids that could be read; `otherwise`: what identifies a request without any,
    `place_of` it or `digest_of` its bytes.
    """
    named = found.get("request_id") or found.get("message_id") or contract.message_id_in(headers)
    return named or ids.derived_uuid(found.get("tenant_id", ""), otherwise)


def place_of(message: Message) -> str:
    """The identity of a request without any id. The stream's time is in it: sequences start again
    in a re-created stream.
    """
    return f"{message.stream}:{message.sequence}:{message.stored_ns}"


def digest_of(data: bytes) -> str:
    """The identity of a request that is in no stream: its length, and the hash of as many bytes as
    are read for its ids.
    """
    return f"{len(data)}:{sha256(data[:MAX_EXTRACT_BYTES]).hexdigest()}"


def ids_in(headers: Mapping[str, str], body: Mapping[str, Any]) -> dict[str, str]:
    """The ids in headers and a decoded payload."""
    inner = body.get("message")
    places = (body, inner) if isinstance(inner, dict) else (body,)
    named: dict[str, str] = {}
    for place in places:
        for name, is_legal in _FIELDS:
            # most are not there, and cost no call
            if name in place and name not in named:
                value = place[name]
                if isinstance(value, str) and is_legal(value):
                    named[name] = value
    for name, value in (
        ("tenant_id", contract.tenant_in(headers)),
        ("trace_id", contract.trace_in(headers)),
    ):
        if value is not None:
            named[name] = value
    return named
