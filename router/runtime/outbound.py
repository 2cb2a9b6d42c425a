"""What `apply` returned becomes messages: an envelope each, under an id that is the same however often it is made.

Rule: docs/requirements.md#mf-9.

id, idempotency_key   from the agent, the key of what it was handed, and the place in the list
trace_id              the cause's;  span_id: a new one, derived from the id;  causation_id: the cause's key
ts                    the cause's logical time, unless `apply` says another
traceparent           header, where the ids are W3C's
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import orjson

from router.contracts.codec import write_value
from router.core import ids
from router.core.errors import Poison
from router.core.message import NO_HEADERS, Effect
from router.runtime.adapter import Outgoing
from router.runtime.envelope import Envelope, derive_ids, traceparent_of
from router.runtime.rows import OutgoingRow

HEADER_ROOM_BYTES = 512  # for id and traceparent: the server's limit includes headers


class OutputRules:
    """The messages that can be sent. `is_bound`: whether a stream of ours accepts a subject; `max_bytes` of a body.

    `check` raises Unsendable for a subject or a type that cannot be sent; it checks each of the few that an agent uses once.
    """

    def __init__(self, is_bound: Callable[[str], bool], max_bytes: int = 1024 * 1024 - HEADER_ROOM_BYTES) -> None:
        self.max_bytes = max_bytes
        self.check: Callable[[str, str], None] = lru_cache(maxsize=1024)(partial(_check, is_bound))


class Unsendable(Poison):
    """A return value of `apply` cannot be sent: another attempt would return the same."""

    code = "unsendable"


def build_outgoing_row(agent: str, cause: Envelope, outgoing: Outgoing, *, place: int, number: int, rules: OutputRules) -> OutgoingRow:
    """Build one message of the row at `place`. Raises Unsendable."""
    rules.check(outgoing.subject, outgoing.type)
    message_id, span_id = derive_ids("outgoing", agent, cause.idempotency_key, str(number))
    data = _body(cause, outgoing, message_id, span_id)
    if len(data) > rules.max_bytes:
        # The server would close the connection for it, and again at the next try.
        raise Unsendable(f"an outgoing message has {len(data)} bytes, more than {rules.max_bytes}")
    return OutgoingRow(place, number, message_id, outgoing.subject, data, traceparent_of(cause.trace_id, span_id))


def effect_of(one: OutgoingRow) -> Effect:
    headers = {"traceparent": one.traceparent} if one.traceparent is not None else NO_HEADERS
    return Effect(one.subject, one.data, one.id, headers)


def _check(is_bound: Callable[[str], bool], subject: str, kind: str) -> None:
    if not ids.is_literal_subject(subject) or not is_bound(subject):
        # The server would refuse it for ever, and every message behind it would wait.
        raise Unsendable("an outgoing subject belongs to no stream of the runtime")
    if not ids.is_opaque(kind):
        raise Unsendable("an outgoing type must be 1..128 printable ASCII characters without spaces")


def _body(cause: Envelope, outgoing: Outgoing, message_id: str, span_id: str) -> bytes:
    envelope = Envelope(
        idempotency_key=message_id,
        type=outgoing.type,
        ts=outgoing.ts if outgoing.ts is not None else cause.ts,
        trace_id=cause.trace_id,
        span_id=span_id,
        payload=outgoing.payload if outgoing.payload is not None else {},
        causation_id=cause.idempotency_key,
    )
    try:
        return write_value(envelope.to_json(), orjson.OPT_SORT_KEYS)  # as `canonical`, and no NaN that would become null
    except (TypeError, ValueError) as exc:
        raise Unsendable(f"an outgoing payload cannot be JSON: {exc}") from exc
