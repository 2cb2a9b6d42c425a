"""Build the messages that an agent sends: one envelope for each value that `apply` returned
(docs/reference/requirements.md#mf-9).

The cause is the message that `apply` handled. The same cause gives the same messages, however often
it is handled, so the server can drop a duplicate:

    id, idempotency_key   derived from the agent's name, the cause's key, and the position in what
                          `apply` returned
    trace_id              the cause's
    span_id               a new one, derived from the id
    causation_id          the cause's key
    ts                    the cause's logical time, unless `apply` set another
    traceparent           a header, if the ids are of W3C's form
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import orjson

from router.agents.adapter import Outgoing
from router.agents.envelope import Envelope, derive_ids, traceparent_of
from router.agents.rows import OutgoingRow
from router.contracts.codec import write_value
from router.core import ids
from router.core.errors import Poison
from router.core.message import NO_HEADERS, Effect

HEADER_ROOM_BYTES = 512  # for id and traceparent: the server's limit includes headers


class OutputRules:
    """Which messages an agent can send. `is_bound`: whether one of its streams accepts a subject;
    `max_bytes`: of a body.

    `check` raises Unsendable for a subject or a type that cannot be sent. It is cached, because an
    agent uses few of them.
    """

    def __init__(
        self, is_bound: Callable[[str], bool], max_bytes: int = 1024 * 1024 - HEADER_ROOM_BYTES
    ) -> None:
        self.max_bytes = max_bytes
        self.check: Callable[[str, str], None] = lru_cache(maxsize=1024)(partial(_check, is_bound))


class Unsendable(Poison):
    """A message that `apply` returned cannot be sent, and another attempt would return the same."""

    code = "unsendable"


def build_outgoing_row(
    agent: str, cause: Envelope, outgoing: Outgoing, *, place: int, number: int, rules: OutputRules
) -> OutgoingRow:
    """Build message `number` of the row at `place`. Raises Unsendable."""
    rules.check(outgoing.subject, outgoing.type)
    message_id, span_id = derive_ids("outgoing", agent, cause.idempotency_key, str(number))
    data = _body(cause, outgoing, message_id, span_id)
    if len(data) > rules.max_bytes:
        # The server would close the connection at each attempt to publish it.
        raise Unsendable(f"an outgoing message has {len(data)} bytes, more than {rules.max_bytes}")
    return OutgoingRow(
        place, number, message_id, outgoing.subject, data, traceparent_of(cause.trace_id, span_id)
    )


def effect_of(one: OutgoingRow) -> Effect:
    headers = {"traceparent": one.traceparent} if one.traceparent is not None else NO_HEADERS
    return Effect(one.subject, one.data, one.id, headers)


def _check(is_bound: Callable[[str], bool], subject: str, kind: str) -> None:
    if not ids.is_literal_subject(subject) or not is_bound(subject):
        # The server would refuse it at each attempt, and the messages behind it would wait for
        # ever.
        raise Unsendable("an outgoing subject belongs to no stream of the runtime")
    if not ids.is_opaque(kind):
        raise Unsendable(
            "an outgoing type must be 1..128 printable ASCII characters without spaces"
        )


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
        # as `canonical`, and no NaN that would become null
        return write_value(envelope.to_json(), orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError) as exc:
        raise Unsendable(f"an outgoing payload cannot be JSON: {exc}") from exc
