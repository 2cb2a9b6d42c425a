"""What comes in and what goes out, as plain values: no NATS type, no method that acts.

    Message   one delivery of one stored message
    Effect    bytes to be stored (PubAck) before anything is stamped
    Reply     bytes for whoever asked; heard at most once, never holds a stamp back

`gc=False`: they hold no cycle, and tens of thousands a second of them would keep the collector busy.
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
    stored_ns: int  # stream time, nanoseconds since the epoch: part of a letter's id
    deliveries: int
    token: str  # the ack subject; read by delivery only
    attempts: int = 1  # how often a handler was started on it, by any process, this time included
    revision: int = 0  # of its attempt record (`delivery.attempts`); 0: this attempt stands in none
    is_first_assumed: bool = False  # the first of them may not have been begun: its process died, and left no word
    is_recorded: bool = False  # an earlier attempt stands in its attempt record

    @property
    def stored_at(self) -> float:
        return self.stored_ns / 1e9

    @property
    def stored_ms(self) -> int:
        return self.stored_ns // 1_000_000


class Effect(Struct, frozen=True, gc=False):
    """A message to be stored. `id` becomes its Nats-Msg-Id: deterministic, so storing it twice stores it once."""

    subject: str
    data: bytes
    id: str
    headers: Mapping[str, str] = NO_HEADERS
    is_dead_letter: bool = False  # a letter's duplicate counts only while the first one still exists (docs/durability.md#dead-letters)
    owner: str = ""  # its tenant, where one that is known to be stored need not be published again; the same id is then the same effect


class Reply(Struct, frozen=True, gc=False):
    """An answer. Its value is meaning's; whom it reaches is delivery's (docs/contracts.md#replies)."""

    data: bytes
    headers: Mapping[str, str] = NO_HEADERS  # sent on the reply subject, where many read; an inbox knows whom it asked
