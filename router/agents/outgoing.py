"""Messages on their way to agents: those that an agent sends, one envelope for each value that
`apply` returned (docs/reference/requirements.md#mf-9); where they are stored; and one that a person
sends.

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

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import orjson

from router.agents.adapter import Outgoing
from router.agents.envelope import Envelope, derive_ids, read_envelope, traceparent_of
from router.agents.store import Mark, OutgoingRow
from router.agents.topology import AgentTopology
from router.contracts.codec import write_value
from router.contracts.exact_json import dump_json
from router.core import ids
from router.core.clock import now_ms
from router.core.errors import Misconfigured, Poison
from router.core.message import NO_HEADERS, Effect, Message
from router.core.outcome import PublishAck

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


def effect_of(row: OutgoingRow) -> Effect:
    headers = {"traceparent": row.traceparent} if row.traceparent is not None else NO_HEADERS
    return Effect(row.subject, row.data, row.id, headers)


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


# -- A message to an agent, written by a person: checked as the agent will read it, before it is
# published.
#
# ledger.post                     -> cmd.{scope}.ledger.post
# cmd.shop.orders.pay, evt.…      as it is


def subject_of(text: str, topology: AgentTopology) -> str:
    """The subject. Raises Misconfigured for one that no agent can consume."""
    subject = text if topology.is_bound(text) else f"cmd.{topology.scope}.{text}"
    if not ids.is_literal_subject(subject) or "." not in text:
        raise Misconfigured(
            "SUBJECT",
            f"should be like ledger.post, or begin with cmd. or evt., and {text[:128]!r} is not",
        )
    return subject


def command_of(subject: str, kind: str, payload: Any, key: str) -> Effect:
    """Build the message; its key is its id, so the stream stores it once, however often it is sent.
    Raises Malformed.
    """
    data = dump_json({"idempotency_key": key, "type": kind, "payload": payload})
    read_envelope(Message(subject, data, {}, "", "", 0, now_ms() * 1_000_000, 1, ""))
    return Effect(subject, data, key)


# -- Record where outgoing messages are stored: publish acks arrive on the loop, and are written
# with the next commit (protocol, step 5).
#
# expect (store's thread) ──> note: called by the consumer's observer ──> take: in the next batch's commit, or a quarter second later
#
# A mark that is lost with the process costs only a second publish of its message, under the same
# id.


FLUSH_DELAY_S = 0.25


class PublishAckBuffer:
    """Marks on their way into the store. The store's thread calls `expect` and `take`, the event
    loop the others.
    """

    def __init__(self) -> None:
        self._expected: dict[str, tuple[int, int]] = {}  # place in the store by message id
        self._marks: deque[Mark] = deque()
        self.wanted = asyncio.Event()

    def expect(self, messages: Iterable[OutgoingRow]) -> None:
        for message in messages:
            self._expected[message.id] = (message.place, message.number)

    def note(self, publish_acks: Sequence[PublishAck]) -> None:
        """All effects of a message have their publish ack; the message itself is not acked yet."""
        for publish_ack in publish_acks:
            place = self._expected.pop(publish_ack.id, None)
            if place is not None:  # else a dead letter, or a second ack of one message
                self._marks.append((publish_ack.stream, publish_ack.sequence, *place))
        self.wanted.set()

    def take(self) -> list[Mark]:
        return [self._marks.popleft() for _ in range(len(self._marks))]

    async def run(self, flush: Callable[[], Awaitable[None]]) -> None:
        """A supervised child: writes an idle agent's marks too, and the last ones at the end."""
        try:
            while True:
                await self.wanted.wait()
                self.wanted.clear()
                await asyncio.sleep(FLUSH_DELAY_S)
                if self._marks:
                    await flush()
        finally:
            if self._marks:
                await flush()
