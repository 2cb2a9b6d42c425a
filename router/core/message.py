"""Incoming and outgoing messages as plain values: no NATS type, no method with an effect. And the
reply subject of a delivery, which says where the message stands.

    Message   one delivery of one stored message
    Effect    a message that must be stored (publish ack) before the ack is sent
    Reply     an answer for the requester; sent at most once, and no ack waits for it

`gc=False`: they form no cycles, and tens of thousands a second would keep the collector busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Message(Struct, frozen=True, gc=False):
    """One delivery. `stored_at` is seconds of stream time: the same on every delivery."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    stream: str
    consumer: str
    sequence: int
    stored_ns: int  # stream time, nanoseconds since the epoch: part of a dead letter's id
    deliveries: int
    ack_subject: str  # read by delivery only
    attempts: int = 1  # the number of this attempt, counted over all processes
    revision: int = 0  # of its attempt record (`delivery.consume.attempts`); 0: it has none
    # the first attempt may not have started: its process died without recording it
    is_first_assumed: bool = False
    is_recorded: bool = False  # its attempt record has an earlier attempt

    @property
    def stored_at(self) -> float:
        return self.stored_ns / 1e9

    @property
    def stored_ms(self) -> int:
        return self.stored_ns // 1_000_000


class Effect(Struct, frozen=True, gc=False):
    """A message to be stored. `id` becomes its Nats-Msg-Id: deterministic, so storing it twice
    stores it once. It is empty where something else says so, as the free key of a record.
    """

    subject: str
    data: bytes
    id: str
    headers: Mapping[str, str] = NO_HEADERS
    # its duplicate counts only while the first one exists
    # (docs/explanation/durability.md#dead-letters)
    is_dead_letter: bool = False
    # its tenant; if set, an effect with an id that is known to be stored is not published again
    owner: str = ""


class Reply(Struct, frozen=True, gc=False):
    """An answer. The handler decides its content, delivery its address
    (docs/reference/contracts.md#replies).

    The ids become headers on the reply subject, which many clients read.
    """

    data: bytes
    trace_id: str | None = None
    tenant_id: str | None = None
    # what goes to the reply subject where `data` is for the requester's own inbox alone
    public: bytes | None = None


# -- The reply subject of a JetStream delivery, into which the server writes where the message
# stands.
#
# $JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.DELIVERY.TIME.PENDING
# $JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.DELIVERIES.SEQUENCE.DELIVERY.TIME.PENDING.…   with a domain
#
# Publishing `+ACK`, `-NAK`, `+TERM` or `+WPI` to it settles the message. Streams and consumers have
# no dot in their names. Source:
# https://docs.nats.io/using-nats/developer/develop_jetstream/consumers#delivery-details


_PLAIN = 9  # tokens without a domain


class AckSubject(NamedTuple):
    """What one delivery's reply subject says."""

    stream: str
    consumer: str
    deliveries: int  # of this message, this one included
    sequence: int  # in the stream
    consumer_sequence: int  # deliveries of this consumer so far, this one included
    stored_ns: int  # nanoseconds since the epoch
    pending: int  # messages that match the consumer and were not delivered yet


def parse_ack_subject(subject: str) -> AckSubject:
    """Raises ValueError or IndexError for a subject that is none: the server wrote it, so nothing
    checks it first.
    """
    part = subject.split(".")
    at = find_stream(len(part))
    figures = [int(figure) for figure in part[at + 2 : at + 7]]
    return AckSubject(part[at], part[at + 1], *figures)


def find_stream(tokens: int) -> int:
    """The place of the stream's name among so many tokens; the other fields follow it."""
    return 2 if tokens == _PLAIN else 4
