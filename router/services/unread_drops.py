"""Counts the messages that a stream dropped before its durable received them.

A stream that discards old messages reports none of them, and its durable goes on at the next message that exists. Only a gap shows:
the position of the durable rises by more than its deliveries.

    place     the stream position of the durable, or the sequence before the first message of the stream, if that is higher
    given     the deliveries of the durable
    place - given    rises by one with each message dropped unread, and falls with each redelivery

So the count may be too low during redeliveries, and is never too high. All instances count the same.
"""

from __future__ import annotations

from router.delivery.api import Json


class UnreadDrops:
    """The state of each durable that one process measures."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}  # by durable: its creation time, and place - given

    def look(self, durable: str, stream: Json, consumer: Json) -> int:
        """How many were dropped since the last call; the first call counts those that the durable has not passed yet.

        `stream` must be fetched before `consumer`, or messages read in between count as dropped.
        """
        passed, given = int(consumer["delivered"]["stream_seq"]), int(consumer["delivered"]["consumer_seq"])
        place = max(passed, int(stream["state"]["first_seq"]) - 1)
        ahead = place - given
        made, before = self._seen.get(durable, ("", 0))
        self._seen[durable] = (consumer["created"], ahead)
        if made != consumer["created"]:
            return place - passed
        return max(0, ahead - before)
