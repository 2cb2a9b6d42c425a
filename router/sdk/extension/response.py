"""What an author's function returned, as the bytes of an answer
(docs/reference/extensions.md#calls).

    pre, post    {payload{message_id, message_type, payload, metadata}, metadata}
    validator    {status: ok} | {status: reject, reason, details}

A value that is none of these is the author's mistake, found here before the router sees it:
`RequestFailed` 422, naming the field. It is not tried again, since it would be the same again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import orjson

from router.contracts.codec import MAX_PAYLOAD_BYTES, text_of
from router.contracts.extension import MAX_METADATA_BYTES, OK, REJECT
from router.contracts.raw_json import has_long_integer, write_payload
from router.extensions.model.failure import ANSWERS
from router.sdk.extension.request import (
    NOTHING,
    UNCHANGED,
    Rejection,
    Request,
    RequestFailed,
    Response,
)

PASSED = orjson.dumps({"status": OK})


def encode_pre(request: Request, value: object) -> bytes:
    if value is None:
        return _encode_message(request, UNCHANGED, NOTHING)
    if isinstance(value, tuple):
        return _encode_message(request, *_pair(value))
    return (
        _encode_response(request, value)
        if isinstance(value, Response)
        else _encode_message(request, value, NOTHING)
    )


def encode_post(request: Request, value: object) -> bytes:
    if value is None:
        return _encode_message(request, UNCHANGED, NOTHING)
    if isinstance(value, tuple):
        return _encode_message(request, *_pair(value))
    return (
        _encode_response(request, value)
        if isinstance(value, Response)
        else _encode_message(request, UNCHANGED, value)
    )


def encode_validator(_request: Request, value: object) -> bytes:
    if value is None or value is True:
        return PASSED
    if value is False:
        value = Rejection("rejected")
    if not isinstance(value, Rejection):
        raise_invalid(
            "status",
            f"a validator returns None, True, False or reject(…), not {type(value).__name__}",
        )
    if not isinstance(value.reason, str) or not value.reason:
        raise_invalid("reason", "should be text")
    answer = encode(
        {
            "status": REJECT,
            "reason": value.reason,
            "details": check_metadata(value.details, "details"),
        }
    )
    if len(answer) > MAX_METADATA_BYTES:
        raise_invalid("reason", f"a rejection is at most {MAX_METADATA_BYTES} bytes")
    return answer


def _pair(value: tuple[object, ...]) -> tuple[object, object]:
    if len(value) != 2:
        raise_invalid(
            "payload", f"a tuple should be (payload, metadata); this one has {len(value)} parts"
        )
    return value[0], value[1]


def _encode_response(request: Request, value: Response) -> bytes:
    return _encode_message(request, value.payload, value.metadata, value.message_metadata)


def _encode_message(
    request: Request, payload: object, metadata: object, message_metadata: object = NOTHING
) -> bytes:
    original = request.message
    kept = {
        "message_id": original.message_id,
        "message_type": original.message_type,
        "payload_ref": original.payload_ref,
    }
    message: dict[str, object] = {name: value for name, value in kept.items() if value is not None}
    message.update(_payload(original.payload if payload is UNCHANGED else payload))
    added = check_metadata(message_metadata, "payload.metadata")
    message["metadata"] = {**(original.metadata or {}), **added}
    return encode({"payload": message, "metadata": check_metadata(metadata, "metadata")})


def _payload(payload: object) -> dict[str, object]:
    """The payload in JSON: an unchanged one as it was sent, bytes that are not UTF-8 with their
    encoding beside them.
    """
    if not isinstance(payload, bytes):
        return {"payload": payload}
    text, encoding = text_of(payload)
    return (
        {"payload": text} if encoding is None else {"payload": text, "payload_encoding": encoding}
    )


def check_metadata(metadata: object, place: str) -> dict[str, object]:
    """Check an object of JSON values with text for keys, at most 64 KiB."""
    if not isinstance(metadata, Mapping):
        raise_invalid(place, f"should be an object, not {type(metadata).__name__}")
    if not all(type(name) is str for name in metadata):
        raise_invalid(place, "should have text for keys")
    checked = dict(metadata)
    if has_long_integer(checked):
        raise_invalid(place, "holds an integer of more than 64 bits, which only a payload may")
    if checked and len(_dump(checked, place)) > MAX_METADATA_BYTES:
        raise_invalid(place, f"is above {MAX_METADATA_BYTES} bytes")
    return checked


def encode(answer: Mapping[str, object]) -> bytes:
    """Encode the answer as JSON, within the limit."""
    return require_fit(_dump(answer, "payload"))


def require_fit(data: bytes) -> bytes:
    if len(data) > MAX_PAYLOAD_BYTES:
        raise_invalid("payload", f"the answer of {len(data)} bytes is above {MAX_PAYLOAD_BYTES}")
    return data


def _dump(value: object, place: str) -> bytes:
    try:
        return write_payload(value)
    except (TypeError, ValueError):  # also for text that is no UTF-8, NaN, and what nests too deep
        raise_invalid(place, "cannot be written as JSON")


def raise_invalid(place: str, message: str) -> NoReturn:
    raise RequestFailed(
        422, "invalid_answer", f"Invalid answer: {place}: {message}", place, fault=ANSWERS
    )
