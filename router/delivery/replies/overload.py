"""A deep backlog: when passing copies are answered, how long a refused requester should wait, and what
is read ahead of the durable once.

    pending ≥ 256, and they take longer than `fair_after_ms`      -> on
    pending ≥ 4, and they have done so for half a second          -> on: few, and dear
    … longer than `overloaded_after_ms`, or the socket is behind -> requests above a tenant's share
    are refused
    a short backlog for half a second                            -> off

`BacklogEstimate` says how long the backlog takes, `Overload` decides by it. The counts of pending
and delivered messages come with each delivery, so no other machine's clock is used.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from math import exp, inf
from typing import Protocol

from router.core.clock import steady
from router.core.errors import RouterError
from router.delivery.consume.processor import MessageProcessor
from router.delivery.consume.stream_reader import RawMessage, RawReader
from router.delivery.replies.reply_sender import ReplySender
from router.delivery.settings import AdmissionConfig
from router.delivery.wire.api import JetStream

# -- When passing copies are answered.

MIN_PENDING = 256  # a smaller backlog is gone in milliseconds, unless each of it is dear:
MIN_DEAR, DEAR_FOR_S = 4, 0.5  # so many are one, too, when they have been deep for so long
# the backlog must be short for so long before passing copies are left alone again
SHORT_BACKLOG_S = 0.5
SHORT_DIVISOR = 4  # short: at most this part of `fair_after_ms`
# at once, so much work of stored copies is pulled, so that passing copies do not wait behind more
STORED_WORK_S = 0.005
READ_AHEAD_WORK_S = 0.02  # while no passing copies come: enough to pull at the full rate
MIN_IN_FLIGHT, MAX_IN_FLIGHT = 8, 64
BEHIND_FOR_S = 0.1  # a burst of some thousand requests is read in this time
REPORT_VALID_S = 1.0  # the pending count of the newest delivery is valid for so long


class Overload:
    """For one subject on one instance. `look` is called some fifty times a second."""

    def __init__(self, replies: ReplySender, admission: AdmissionConfig) -> None:
        self._replies = replies
        after_ms = admission.fair_after_ms
        self._after_s = after_ms / 1000 if after_ms is not None else inf
        self._refuse_after_s = admission.overloaded_after_ms / 1000
        self._backlog = BacklogEstimate()
        self._taken, self._taken_at = 0, 0.0
        self._heard, self._heard_at = 0, 0.0
        # since when more waits in the socket than a read takes
        self._behind_since: float | None = None
        self._calm_since: float | None = None
        self._deep_since: float | None = None
        self._now = steady
        self.wait_s = 0.0  # until the newest stored request is handled
        self.retry_after_ms = 100
        self.refuses = False  # requests above a share; else they are left to their stored copies
        self.is_on = False

    def look(self, processor: MessageProcessor, handled: int, *, is_open: bool) -> bool:
        """Whether to take passing copies. `handled`: passing copies so far; their stored copies are
        pending, but need only an ack.
        """
        pending = self._find_pending(processor.pending, processor.taken)
        self.wait_s = self._backlog.wait_s(pending, processor.delivered + handled, self._now())
        self.retry_after_ms = min(30_000, max(100, int(self.wait_s * 1000)))
        self.refuses = self.wait_s >= self._refuse_after_s or self._is_behind_for_long()
        if self.is_on:
            is_short = pending < MIN_DEAR or self.wait_s < self._after_s / SHORT_DIVISOR
            self.is_on = not self._is_calm_for_long(is_short)
        else:
            is_deep = pending >= MIN_DEAR and self.wait_s > self._after_s and is_open
            is_for_long = self._is_deep_for_long(is_deep)
            self.is_on = is_deep and (pending >= MIN_PENDING or is_for_long)
            self._calm_since = None
        return self.is_on

    def limit_in_flight(self, *, has_waiting: bool) -> int | None:
        """How many stored copies may be in flight. None: the subscription's own bound, because no
        passing copy came lately.

        `has_waiting`: requests that were read ahead wait, or are still to be read.
        """
        now = self._now()
        if self._replies.heard != self._heard:
            self._heard, self._heard_at = self._replies.heard, now
        if not self.is_on:
            return None
        if now - self._heard_at >= REPORT_VALID_S:
            return (
                max(MIN_IN_FLIGHT, int(READ_AHEAD_WORK_S * self._backlog.rate))
                if has_waiting
                else None
            )
        if self._replies.is_behind:
            return MIN_IN_FLIGHT
        return min(MAX_IN_FLIGHT, max(MIN_IN_FLIGHT, int(STORED_WORK_S * self._backlog.rate)))

    def _find_pending(self, reported: int, taken: int) -> int:
        """The pending count of the newest delivery, 0 if that is long ago: other instances may have
        handled them since.

        While the socket is behind, deliveries wait there too, so the count stays valid.
        """
        now = self._now()
        if taken != self._taken or self._replies.is_behind:
            self._taken, self._taken_at = taken, now
        return reported if now - self._taken_at < REPORT_VALID_S else 0

    def _is_behind_for_long(self) -> bool:
        """Whether requests have come faster than they are read for a while: then passing copies are
        late, too.
        """
        now = self._now()
        if not self._replies.is_behind:
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = now
        return now - self._behind_since >= BEHIND_FOR_S

    def _is_deep_for_long(self, is_deep: bool) -> bool:
        if not is_deep:
            self._deep_since = None
            return False
        if self._deep_since is None:
            self._deep_since = self._now()
        return self._now() - self._deep_since >= DEAR_FOR_S

    def _is_calm_for_long(self, is_calm: bool) -> bool:
        if not is_calm:
            self._calm_since = None
            return False
        if self._calm_since is None:
            self._calm_since = self._now()
        return self._now() - self._calm_since >= SHORT_BACKLOG_S


# -- How long a message that is stored now waits for its consumer: pending messages divided by
# the recent rate of deliveries. The rate is measured only while messages are pending, because
# an idle consumer does not show its speed.

RATE_MEMORY_S = 0.5  # time constant of the moving average


class BacklogEstimate:
    """`wait_s` is called some fifty times a second. All times are steady seconds."""

    def __init__(self) -> None:
        self._count = 0.0  # recent deliveries
        self._seconds = 0.0  # the time that they took, with messages pending
        self._taken = 0
        self._at: float | None = None

    @property
    def rate(self) -> float:
        """Deliveries a second."""
        return self._count / self._seconds if self._seconds else 0.0

    def wait_s(self, pending: int, taken: int, now: float) -> float:
        """Seconds until the consumer gets to the newest message. `taken`: deliveries so far, to all
        instances.
        """
        # the first call, or the consumer was re-created
        if self._at is None or taken < self._taken:
            self._at, self._taken = now, taken
            return 0.0
        passed = now - self._at
        if pending and passed > 0:
            keep = exp(-passed / RATE_MEMORY_S)
            self._count = keep * self._count + (taken - self._taken)
            self._seconds = keep * self._seconds + passed
        self._at, self._taken = now, taken
        return pending / max(self.rate, 1.0)


# -- Read what a stream holds behind a deep backlog, once, when passing copies begin to be answered.
#
# The requests stored before that moment have no passing copy left, and a quiet tenant's wait behind a
# whole flood. So the stream is read ahead of its durable, by a consumer without acks, and the first
# requests of each tenant take their turns among the passing copies:
#
# the durable's place ──────────── read ahead ────────────> the end of the stream ── passing copies from here on
#
# Reading costs a tenth of handling. So only the newest requests are read, and few of them where no
# requester is known to wait. The consumer has a fixed name, so of several instances one reads. A
# request that is not found here, or whose instance ends, is handled when its stored copy is
# delivered. `jetstream` has a connection of its own, because the main one may be behind.


READ_AHEAD = "router-read-ahead"  # the consumer's name
# messages at once: a millisecond's work, so that passing copies do not wait behind more
READ_BATCH = 500
MAX_READ = 100_000  # the newest ones: the requesters of the others have given up
# while no inbox waits: the requests may be a backlog of which no requester waits any more
MAX_READ_UNHEARD = 4_000
MAX_OF_TENANT = 256  # requests of one tenant that are taken ahead, and as many that go first
# by then the server knows that passing copies are taken, and a request that it passed on before is
# stored
STORING_S = 0.1


# the place of a request's tenant in the turns, and whether it goes first of those of that place
Share = tuple[str, bool]


class StoredTaker(Protocol):
    """Where the requests go: `PassingRequests`."""

    is_on: bool
    is_reading_ahead: bool  # few stored copies are pulled meanwhile

    @property
    def next_sequence(self) -> int:
        """The sequence after the delivery that came last."""

    @property
    def has_waiting_inboxes(self) -> bool:
        """Whether requesters wait that were heard."""

    def read_share(self, data: bytes, head: bytes | None) -> Share | None:
        """Whose share a request is of; None: only its delivery can be handled."""

    def take_stored(self, stored: RawMessage, share: Share) -> bool:
        """Queue a request. False: it is left to its delivery."""


class ReadAhead:
    """For one stream."""

    def __init__(self, jetstream: JetStream, stream: str) -> None:
        self._jetstream = jetstream
        self._stream = stream

    async def read(self, taker: StoredTaker) -> None:
        """Offer the requests that are stored now."""
        if taker.has_waiting_inboxes:
            await asyncio.sleep(STORING_S)
        taker.is_reading_ahead = True
        try:
            await self._offer_newest(
                taker, MAX_READ if taker.has_waiting_inboxes else MAX_READ_UNHEARD
            )
        except RouterError:
            pass  # another instance reads, or none can: the stored copies are delivered in any case
        except Exception as exc:  # no request may stop the listener
            self._jetstream.connection.on_fault(exc)
        finally:
            taker.is_reading_ahead = False

    async def _offer_newest(self, taker: StoredTaker, most: int) -> None:
        info = await self._jetstream.stream(self._stream)
        if info is None:
            return
        reader = RawReader(
            self._jetstream,
            self._stream,
            max(taker.next_sequence, info["state"]["last_seq"] - most + 1),
            name=READ_AHEAD,
        )
        try:
            await reader.open()
            await _offer(reader, taker)
        finally:
            await reader.close()


async def _offer(reader: RawReader, taker: StoredTaker) -> None:
    left, taken = reader.total, Counter[Share]()
    while taker.is_on and left > 0 and (batch := await reader.read(min(READ_BATCH, left))):
        left -= len(batch)
        for stored in batch:
            share = taker.read_share(stored[2], stored[3])
            if share is not None and taken[share] < MAX_OF_TENANT:
                taken[share] += taker.take_stored(stored, share)
