"""Incoming and outgoing messages as plain values: no NATS type, no method with an effect.

    Message   one delivery of one stored message
    Effect    a message that must be stored (publish ack) before the ack is sent
    Reply     an answer for the requester; sent at most once, and no ack waits for it

`gc=False`: they form no cycles, and tens of thousands a second would keep the collector busy.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
    stores it once.
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
