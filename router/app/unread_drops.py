"""Messages that a stream dropped before its durable was given them: how many, seen from outside.

A stream that discards old messages tells of none, and neither does its durable: it goes on at the next one that stands
there. What is left of it is a gap: the durable's place in the stream moves on by more than it was given.

    place     where the durable stands in the stream, or the message before the oldest that stands there, if that is further
    given     how many deliveries the durable has made
    place - given    rises by one with each message that was dropped unread, and falls with each redelivery

So a count may be too low while messages are delivered again, and is never too high. Each instance sees the same.
"""

from __future__ import annotations

from router.delivery.api import Json


class UnreadDrops:
    """Of the durables that one process looks at."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, int]] = {}  # by durable: which one it was (when it was made), place - given

    def look(self, durable: str, stream: Json, consumer: Json) -> int:
        """How many were dropped since the last look, and before the first one of those that the durable has not passed yet.

        `stream` must be older than `consumer`, or what is read in between looks like dropped.
        """
        passed, given = int(consumer["delivered"]["stream_seq"]), int(consumer["delivered"]["consumer_seq"])
        place = max(passed, int(stream["state"]["first_seq"]) - 1)
        ahead = place - given
        made, before = self._seen.get(durable, ("", 0))
        self._seen[durable] = (consumer["created"], ahead)
        if made != consumer["created"]:
            return place - passed
        return max(0, ahead - before)
