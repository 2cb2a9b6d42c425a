"""The same request again: what makes two requests the same, and what is kept of the first one.

    Idempotency-Key, else x-router-request-id    the identity, of one tenant
    API, policy, body                            the content: with one identity it must be the same

    its record    no answer yet   it runs; its gateway writes the record again and again
                  an answer       what the same request gets: status, headers and body

What is no answer of a provider may be kept as one, too: a failure after a provider was asked, a
stream that broke, the note that an answer was too large. A failure before that is never kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from router.contracts.decision import INVALID_REQUEST
from router.core import ids
from router.core.errors import Poison
from router.core.ids import MAX_NAME, is_opaque
from router.gateway.model.refusal import ANSWER_NOT_KEPT, STREAM_INTERRUPTED, GatewayRefusal

IDEMPOTENCY_KEY = "Idempotency-Key"
REQUEST_ID = "x-router-request-id"
COST = "x-router-cost"
REPEATED = "x-router-repeated"
JSON = "application/json"
MAX_KEPT_BYTES = 256 * 1024  # of a body
# A bucket that is full takes a record in place of a larger one. So one that runs is larger than the
# note that it was answered, and each time that it is written again a byte smaller.
ROOM = 2_048


# -- Which requests are the same.


MAX_REQUEST_ID = MAX_NAME - len("~10")


def find_request_id(headers: Mapping[str, str]) -> str | None:
    """The name that a client gave its request, where it may be one."""
    given = headers.get(REQUEST_ID, "")
    # `~` begins the number of a further attempt, for which there must be room
    is_legal = is_opaque(given) and "~" not in given and len(given) <= MAX_REQUEST_ID
    return given if is_legal else None


def find_identity(headers: Mapping[str, str]) -> str | None:
    """None: the request is asked as often as it comes. Raises GatewayRefusal."""
    given = headers.get(IDEMPOTENCY_KEY.lower())
    if given is None:
        return find_request_id(headers)
    if not is_opaque(given):
        text = f"{IDEMPOTENCY_KEY} should be 1 to {ids.MAX_NAME} printable ASCII characters"
        raise GatewayRefusal(INVALID_REQUEST, text, param=IDEMPOTENCY_KEY)
    return given


def make_record_key(tenant_id: str, identity: str) -> str:
    return ids.key(tenant_id, ids.sha256_hex(identity.encode()))


def digest_content(api: str, policy_id: str, body: bytes) -> str:
    """`policy_id`: two keys of a tenant may mean different policies with the same body."""
    return hashlib.sha256(b"\0".join((api.encode(), policy_id.encode(), body))).hexdigest()


# -- The record.


class KeptAnswer(Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    media_type: str
    body: bytes


class KeptRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`owner`: the asking of it, a random name. `answer`: None while it runs."""

    content: str
    owner: str
    request_id: str
    answer: KeptAnswer | None = None
    room: str = ""


def write_running(record: KeptRecord, renewals: int) -> bytes:
    room = "." * max(0, ROOM - renewals)
    return msgspec.json.encode(msgspec.structs.replace(record, room=room))


def write_answered(record: KeptRecord, answer: KeptAnswer) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(record, answer=answer))


def read_record(data: bytes) -> KeptRecord:
    """Raises Poison."""
    try:
        return msgspec.json.decode(data, type=KeptRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Poison("is no record of an answer") from exc


# -- What is kept in place of an answer.


def keep_failure(refusal: GatewayRefusal, headers: Mapping[str, str]) -> KeptAnswer:
    return KeptAnswer(status=refusal.status, headers=headers, media_type=JSON, body=refusal.body)


def keep_interruption(request_id: str, cost: str | None = None) -> KeptAnswer:
    """Of a stream that broke, or of a gateway that died."""
    billed = f"; {cost} was billed for it" if cost is not None else ""
    text = f"The first request of this key ended in the middle of its answer{billed}"
    return keep_failure(GatewayRefusal(STREAM_INTERRUPTED, text), _list_headers(request_id, cost))


def keep_note(answer: KeptAnswer) -> KeptAnswer:
    """That it was answered, of an answer that has no room."""
    text = "The first request of this key was answered, and its answer was not kept"
    return keep_failure(GatewayRefusal(ANSWER_NOT_KEPT, text), answer.headers)


def is_kept(refusal: GatewayRefusal, *, is_called: bool) -> bool:
    """Whether a failure is the answer of this request for good: a provider was asked, so to ask
    again would be a second bill. What is refused may be asked again.
    """
    return is_called and refusal.status >= 500


def _list_headers(request_id: str, cost: str | None) -> Mapping[str, str]:
    return {REQUEST_ID: request_id, **({COST: cost} if cost is not None else {})}
