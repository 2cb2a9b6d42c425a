"""The reply subject of a JetStream delivery, into which the server writes where the message stands.

    $JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.DELIVERY.TIME.PENDING
    $JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.DELIVERIES.SEQUENCE.DELIVERY.TIME.PENDING.…    with a domain

Publishing `+ACK`, `-NAK`, `+TERM` or `+WPI` to it settles the message. Streams and consumers have
no dot in their names. Source:
https://docs.nats.io/using-nats/developer/develop_jetstream/consumers#delivery-details
"""

from __future__ import annotations

from typing import NamedTuple

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
