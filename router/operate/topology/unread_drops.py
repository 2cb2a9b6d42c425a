"""Counts the messages that a stream dropped before its durable received them.

A stream that discards old messages reports none of them, and its durable goes on at the next message that exists. Only a gap shows:
the position of the durable rises by more than its deliveries.

    place     the stream position of the durable, or the sequence before the first message of the stream, if that is higher
    given     the deliveries of the durable
    place - given    rises by one with each message dropped unread, and falls with each redelivery

So the count may be too low during redeliveries, and is never too high. All instances count the same. A new leader of the durable may not
know of the last deliveries of the one before, so of its first figures only what lies beyond its position counts; and it may hear their acks
later, which raise its position without a delivery, so no more counts than the stream has lost at its begin since the last look.
"""

from __future__ import annotations

from typing import NamedTuple

from router.delivery.wire.api import Json


class SeenDurable(NamedTuple):
    """`counted`: the highest stream position up to which drops were counted."""

    created: str
    leader: str
    ahead: int
    counted: int


class UnreadDrops:
    """The state of each durable that one process measures."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenDurable] = {}  # by durable

    def look(self, durable: str, stream: Json, consumer: Json) -> int:
        """How many were dropped since the last call; the first call counts those that the durable has not passed yet.

        `stream` must be fetched before `consumer`, or messages read in between count as dropped.
        """
        passed, given = int(consumer["delivered"]["stream_seq"]), int(consumer["delivered"]["consumer_seq"])
        gone = int(stream["state"]["first_seq"]) - 1
        place = max(passed, gone)
        leader = str((consumer.get("cluster") or {}).get("leader", ""))
        before = self._seen.get(durable)
        is_same = before is not None and before.created == consumer["created"]
        counted = before.counted if before is not None and is_same else 0
        self._seen[durable] = SeenDurable(consumer["created"], leader, place - given, max(place, counted))
        if before is None or not is_same or before.leader != leader:
            return max(0, place - max(passed, counted))
        return max(0, min(place - given - before.ahead, gone - before.counted))
