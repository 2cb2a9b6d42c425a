"""What of the usage stream is booked already: how far it is settled, and which events were read
lately.

    UsagePlace     how far; `find_place` says where the settlement goes on, also in a stream that
                   was made anew
    EventMemory    which events: a repeated result is counted once, and a reservation ends once
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from secrets import token_bytes, token_hex

from msgspec import Struct

from router.budgets.model.spent_record import BookingRecord, find_created
from router.contracts.usage import UsageCost
from router.core.errors import BrokerUnavailable
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, Json, StoredMessage, nanos

# -- How far the usage stream is settled, by sequences of the stream that there is now.
#
#     the stream that was settled, whole    the sequence that was remembered
#     another of its name, or one that      the last event that was stored no later than the last
#     has lost its end                      one that is settled
#
# Sequences tell events apart within one stream only. One that was made anew begins at 1 and
# holds later events; one that was restored or promoted has another time at which it was made,
# and keeps sequences and times of the events that it has.

MICROSECOND_BATCH = 500  # more than can be stored within a microsecond
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UsagePlace(Struct, frozen=True):
    """The last settled event: its sequence, the timeline of that sequence, and when the stream
    stored it, ns since the epoch.
    """

    timeline: str = ""
    through: int = 0
    stored_ns: int = 0

    @property
    def created(self) -> str:
        """When the stream was made."""
        return find_created(self.timeline)

    def move_to(self, last: StoredMessage) -> UsagePlace:
        """The place after this event, unless it is settled already."""
        if last.sequence <= self.through:
            return self
        return UsagePlace(self.timeline, last.sequence, max(self.stored_ns, nanos(last.time)))


async def find_place(jetstream: JetStream, stream: str, record: BookingRecord | None) -> UsagePlace:
    """Where the settlement goes on; without a record at the end. Raises BrokerUnavailable, also
    where there is no stream.
    """
    info = await jetstream.stream(stream)
    if info is None:
        raise BrokerUnavailable(f"there is no stream {stream}")
    last = int(info["state"]["last_seq"])
    if record is None:
        return UsagePlace(_name_timeline(info), last, max(0, nanos(info["state"]["last_ts"])))
    if (
        find_created(record.timeline) == info["created"]
        and record.through <= last
        and await _is_booked(jetstream, stream, record)
    ):
        return UsagePlace(record.timeline, record.through, record.stored_ns)
    return UsagePlace(
        _name_timeline(info),
        await _find_last_until(jetstream, stream, record.stored_ns, last),
        record.stored_ns,
    )


async def _is_booked(jetstream: JetStream, stream: str, record: BookingRecord) -> bool:
    """Whether the event at `through` is the one that was settled: a stream that lost its end may
    have grown beyond it again.
    """
    stored = await jetstream.message(stream, record.through) if record.through else None
    return stored is None or nanos(stored.time) <= record.stored_ns


def _name_timeline(info: Json) -> str:
    """A new one each time: a stream that has lost its end gives the same sequences to other events."""
    return f"{info['created']} {token_hex(4)}"


async def _find_last_until(jetstream: JetStream, stream: str, stored_ns: int, last: int) -> int:
    """The sequence before the first event that was stored later; `last` where there is none."""
    since = _EPOCH + timedelta(microseconds=stored_ns // 1000)
    async with open_reader(jetstream, stream, since=since, headers_only=True) as reader:
        batch = await reader.read(MICROSECOND_BATCH)
    return next(
        (message.sequence - 1 for message in batch if nanos(message.time) > stored_ns), last
    )


# -- Which events were read lately, and at which sequence first.
#
# Names are kept as short hashes under a key of this process: payers choose parts of them, and
# could look for two that are hashed alike.

MEMORY_LIMIT = 400_000  # an event and what it refers to are two


class EventMemory:
    """The oldest is forgotten first."""

    def __init__(self, limit: int = MEMORY_LIMIT) -> None:
        self._limit = limit
        self._key = token_bytes(16)
        self._first: dict[int, int] = {}

    def is_first(self, name: str, sequence: int) -> bool:
        """Whether no message of this name is known with a lower sequence."""
        key = int.from_bytes(
            blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest()
        )
        first = self._first.setdefault(key, sequence)
        if len(self._first) > self._limit:
            del self._first[next(iter(self._first))]
        return first >= sequence


def is_end_of_reservation(cost: UsageCost, memory: EventMemory, sequence: int) -> bool:
    """Whether the reservation in its header ends with it: each ends once. An id that payers choose
    decides only where there is no other.
    """
    if cost.adjustment is not None:
        return False
    return cost.reference is None or memory.is_first(f"{cost.tenant_id} {cost.reference}", sequence)
