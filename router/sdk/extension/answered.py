"""What an author's function returned, as the bytes of an answer (docs/extensions.md#calls).

    pre, post    {payload{message_id, message_type, payload, metadata}, metadata}
    validator    {status: ok} | {status: reject, reason, details}

A value that is none of these is the author's mistake, found here before the router sees it: `Failed` 422, naming the field.
It is not tried again, since it would be the same again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import orjson

from router.contracts.codec import MAX_PAYLOAD_BYTES, text_of
from router.contracts.extension import MAX_METADATA_BYTES, OK, REJECT
from router.sdk.extension.asked import Request
from router.sdk.extension.said import NOTHING, UNCHANGED, Answer, Failed, Rejection

PASSED = orjson.dumps({"status": OK})


def of_pre(request: Request, said: object) -> bytes:
    if said is None:
        return _processed(request, UNCHANGED, NOTHING)
    if isinstance(said, tuple):
        return _processed(request, *_pair(said))
    return _whole(request, said) if isinstance(said, Answer) else _processed(request, said, NOTHING)


def of_post(request: Request, said: object) -> bytes:
    if said is None:
        return _processed(request, UNCHANGED, NOTHING)
    if isinstance(said, tuple):
        return _processed(request, *_pair(said))
    return _whole(request, said) if isinstance(said, Answer) else _processed(request, UNCHANGED, said)


def of_validator(_request: Request, said: object) -> bytes:
    if said is None or said is True:
        return PASSED
    if said is False:
        said = Rejection("rejected")
    if not isinstance(said, Rejection):
        unfit("status", f"a validator returns None, True, False or reject(…), not {type(said).__name__}")
    if not isinstance(said.reason, str) or not said.reason:
        unfit("reason", "should be text")
    answer = encoded({"status": REJECT, "reason": said.reason, "details": checked_metadata(said.details, "details")})
    if len(answer) > MAX_METADATA_BYTES:
        unfit("reason", f"a rejection is at most {MAX_METADATA_BYTES} bytes")
    return answer


def _pair(said: tuple[object, ...]) -> tuple[object, object]:
    if len(said) != 2:
        unfit("payload", f"a tuple should be (payload, metadata); this one has {len(said)} parts")
    return said[0], said[1]


def _whole(request: Request, said: Answer) -> bytes:
    return _processed(request, said.payload, said.metadata, said.message_metadata)


def _processed(request: Request, payload: object, metadata: object, message_metadata: object = NOTHING) -> bytes:
    found = request.message
    kept = {"message_id": found.message_id, "message_type": found.message_type, "payload_ref": found.payload_ref}
    message: dict[str, object] = {name: value for name, value in kept.items() if value is not None}
    message.update(_payload(found.payload if payload is UNCHANGED else payload))
    added = checked_metadata(message_metadata, "payload.metadata")
    message["metadata"] = {**(found.metadata or {}), **added}
    return encoded({"payload": message, "metadata": checked_metadata(metadata, "metadata")})


def _payload(payload: object) -> dict[str, object]:
    """As JSON has it: bytes that are not UTF-8 with their encoding beside them."""
    if not isinstance(payload, bytes):
        return {"payload": payload}
    text, encoding = text_of(payload)
    return {"payload": text} if encoding is None else {"payload": text, "payload_encoding": encoding}


def checked_metadata(metadata: object, place: str) -> dict[str, object]:
    """An object of JSON values with text for keys, at most 64 KiB."""
    if not isinstance(metadata, Mapping):
        unfit(place, f"should be an object, not {type(metadata).__name__}")
    if not all(type(name) is str for name in metadata):
        unfit(place, "should have text for keys")
    found = dict(metadata)
    if found and len(_dumped(found, place)) > MAX_METADATA_BYTES:
        unfit(place, f"is above {MAX_METADATA_BYTES} bytes")
    return found


def encoded(answer: Mapping[str, object]) -> bytes:
    """The answer as JSON, within the limit."""
    return fitting(_dumped(answer, "payload"))


def fitting(data: bytes) -> bytes:
    if len(data) > MAX_PAYLOAD_BYTES:
        unfit("payload", f"the answer of {len(data)} bytes is above {MAX_PAYLOAD_BYTES}")
    return data


def _dumped(value: object, place: str) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # also for text that is no UTF-8, integers above 64 bits, and what nests too deep
        unfit(place, "cannot be written as JSON")


def unfit(place: str, message: str) -> NoReturn:
    raise Failed(422, "invalid_answer", f"Invalid answer: {place}: {message}", place)
