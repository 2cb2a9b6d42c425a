"""An ephemeral pull consumer that acknowledges nothing, from its creation until it has no more to say.

    pull ──> deliveries, as they come, into plain lists ──> `take`: a batch of them, without a hole

It ends, and another one has to go on where it stopped, when the server says anything that is no message, when it says nothing,
and when a delivery is missing (a connection that was cut for a moment). A message is counted when it comes, and no more: the
reply subjects of a whole batch are read together.

Measured side by side on two cores, messages only counted: 130–170 thousand/s so, 43–56 thousand/s by batched direct gets. With
Arrow: 217 thousand/s in one process (320 without headers), 115 thousand/s through Spark, `local[2]`, the broker on the same cores.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import orjson

from router.delivery.api import JetStream
from router.errors import BrokerRefused, BrokerUnavailable
from router.lake.source.errors import Interrupted
from router.lake.source.places import Places, read_place, read_places
from router.lake.source.rows import Heard

ROWS_A_BATCH = 16_384
BYTES_A_BATCH = 32 * 1024 * 1024
MESSAGES_IN_FLIGHT = 16_384  # asked for at once: what the server may push while nobody reads,
BYTES_IN_FLIGHT = 16 * 1024 * 1024  # well below the 64 MiB at which it closes a connection
SILENCE_S = 1.0
PULL_S = 45.0  # a request that waits longer is answered 408, and ends this consumer
IDLE_S = 60.0  # the server forgets a consumer that nobody pulls from, should we not live to delete it
_NS = 1_000_000_000


class Ephemeral:
    """`open`, `take` until `is_over`, `close`."""

    def __init__(self, jetstream: JetStream, stream: str, *, average_bytes: float, silence_s: float = SILENCE_S) -> None:
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._stream = stream
        self.average_bytes = average_bytes  # of a message, lately
        self._silence_s = silence_s  # after which this one is given up
        self._is_delivered = True  # all that was asked for: nothing yet
        self._is_cut = False
        self._is_full = False
        self._name = ""
        self._inbox = self._connection.new_inbox()
        self._sid = 0
        self._last = 0  # the last sequence that is wanted
        self._remaining = 0  # messages to come, at most
        self._outstanding = 0  # of them, asked for
        self._delivered = 0  # messages taken so far
        self._stirred = asyncio.Event()
        self._begin_batch()

    def _begin_batch(self) -> None:
        self._heard = Heard()
        self._add_reply, self._add_subject = self._heard.replies.append, self._heard.subjects.append
        self._add_head, self._add_data = self._heard.heads.append, self._heard.data.append
        self._looked_at = 0
        self._room = BYTES_A_BATCH
        self._is_full = False
        self._until_look = 1

    @property
    def is_over(self) -> bool:
        """Everything is delivered, and taken."""
        return self._is_delivered and not len(self._heard)

    async def open(self, start: int, end: int, subject: str | None) -> None:
        """Deliver the messages from `start` up to and without `end`."""
        self._last = end - 1
        self._sid = await self._connection.attend_raw(self._inbox, self._hear)
        config = _config(start, subject)
        made = await self._jetstream.ask(f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        self._name = made["name"]
        self._remaining = min(made["num_pending"], end - start)
        self._is_delivered = not self._remaining

    async def take(self) -> tuple[Heard, Places]:
        """The next messages in order, some of them perhaps beyond the range. Raises Interrupted, after which there are no more."""
        self._catch_up()
        self._pull()
        while not (self._is_full or self._is_cut or self._is_delivered):
            self._stirred.clear()
            await self._stirring()
        self._catch_up()
        heard = self._heard
        self._begin_batch()
        if not len(heard):
            raise Interrupted(f"{self._stream}: the consumer says no more")
        return heard, self._whole(heard)

    async def close(self) -> None:
        """Leave nothing on the server, if it can be reached."""
        await self._connection.leave(self._sid, at_once=True)
        if self._name and self._connection.is_connected:
            with contextlib.suppress(BrokerRefused, BrokerUnavailable):
                await self._jetstream.ask(f"CONSUMER.DELETE.{self._stream}.{self._name}")

    async def _stirring(self) -> None:
        before = len(self._heard)
        try:
            async with asyncio.timeout(self._silence_s):
                await self._stirred.wait()
        except TimeoutError:
            self._is_cut = len(self._heard) == before

    def _whole(self, heard: Heard) -> Places:
        places = read_places(heard.replies)
        whole = places.whole_from(self._delivered + 1)
        self._delivered += whole
        if whole == len(heard):
            return places
        self._is_cut, self._is_delivered = True, False
        if not whole:
            raise Interrupted(f"{self._stream}: deliveries were lost on the way")
        return places.upto(whole)

    # -- now and then --------------------------------------------------------------------------------------------------

    def _pull(self) -> None:
        """Ask for more when half of it has come, and say when to look again."""
        if self._is_cut or self._is_delivered:
            return
        most = int(max(2, min(MESSAGES_IN_FLIGHT, BYTES_IN_FLIGHT / max(1.0, self.average_bytes))))
        wanted = min(most, self._remaining)
        if self._outstanding <= wanted // 2:
            request = {"batch": wanted - self._outstanding, "expires": int(PULL_S * _NS)}
            self._outstanding = wanted
            self._connection.post(
                f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._name}", orjson.dumps(request), self._inbox
            )
        # The count of what remains is too high when messages were deleted since: the last ones are looked at more and more often.
        ahead = self._outstanding - wanted // 2 if self._remaining > self._outstanding else self._remaining // 2
        self._until_look = max(1, min(ahead, ROWS_A_BATCH - len(self._heard)))

    def _look(self) -> None:
        place = read_place(self._heard.replies[-1])
        new = len(self._heard) - self._looked_at
        self.average_bytes = self._heard.bytes_from(self._looked_at) / new
        self._looked_at = len(self._heard)
        self._outstanding -= new
        self._remaining = min(place.pending, self._last - place.sequence)
        self._is_delivered = self._remaining <= 0
        self._is_full = self._is_full or len(self._heard) >= ROWS_A_BATCH or self._room <= 0
        if self._is_delivered or self._is_full:
            self._until_look, self._room = ROWS_A_BATCH, BYTES_A_BATCH  # what is still in the buffer is heard
            self._stirred.set()
        else:
            self._pull()

    def _told(self) -> None:
        """No message: the request has ended, or there is no such consumer any more."""
        self._catch_up()
        self._is_cut = not self._is_delivered
        self._stirred.set()

    def _catch_up(self) -> None:
        if len(self._heard) > self._looked_at:
            self._look()

    # -- once a message --------------------------------------------------------------------------------------------------

    def _hear(self, subject: bytes, reply: bytes, data: bytes, head: bytes | None) -> None:
        if not reply:
            self._told()
            return
        self._add_reply(reply)
        self._add_subject(subject)
        self._add_head(head)
        self._add_data(data)
        self._until_look -= 1
        self._room -= len(data)
        if not self._until_look or self._room <= 0:
            self._look()


def _config(start: int, subject: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start,
        "ack_policy": "none",
        "max_deliver": 1,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": int(IDLE_S * _NS),
    }
    return config if subject is None else {**config, "filter_subject": subject}
