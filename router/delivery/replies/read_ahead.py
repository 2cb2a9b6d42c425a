"""Read what a stream holds behind a deep backlog, once, when live copies begin to be answered.

The requests stored before that moment have no live copy left, and a quiet tenant's wait behind a
whole flood. So the stream is read ahead of its durable, by a consumer without acks, and the first
requests of each tenant take their turns among the live copies:

    the durable's place ──────────── read ahead ────────────> the end of the stream ── live copies from here on

Reading costs a tenth of handling. So only the newest requests are read, and few of them where no
requester is known to wait. The consumer has a fixed name, so of several instances one reads. A
request that is not found here, or whose instance ends, is handled when its stored copy is
delivered. `jetstream` has a connection of its own, because the main one may be behind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from router.core.errors import RouterError
from router.delivery.consume.stream_reader import RawMessage, RawReader
from router.delivery.wire.api import JetStream

READ_AHEAD = "router-read-ahead"  # the consumer's name
# messages at once: a millisecond's work, so that live copies do not wait behind more
READ_BATCH = 500
MAX_READ = 100_000  # the newest ones: the requesters of the others have given up
# while no inbox waits: the requests may be a backlog of which no requester waits any more
MAX_READ_UNHEARD = 4_000
MAX_OF_TENANT = 256  # requests of one tenant that are taken ahead, and as many that go first
# by then the server knows that live copies are taken, and a request that it passed on before is
# stored
STORING_S = 0.1


# the tenant of a request, and whether it goes first of those of its tenant
Share = tuple[str, bool]


class StoredTaker(Protocol):
    """Where the requests go: `LiveRequests`."""

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
    while taker.is_on and left > 0 and (found := await reader.read(min(READ_BATCH, left))):
        left -= len(found)
        for stored in found:
            share = taker.read_share(stored[2], stored[3])
            if share is not None and taken[share] < MAX_OF_TENANT:
                taken[share] += taker.take_stored(stored, share)
