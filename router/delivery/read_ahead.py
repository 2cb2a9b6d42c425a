"""Read what a stream holds behind a deep backlog, once, when live copies begin to be answered.

The requests stored before that moment have no live copy left, and a quiet tenant's wait behind a whole flood. So the stream is read
ahead of its durable, by a consumer without acks, and the first requests of each tenant take their turns among the live copies:

    the durable's place ──────────── read ahead ────────────> the end of the stream ── live copies from here on

The consumer has a fixed name, so of several instances one reads. A request that is not found here, or whose instance ends, is
handled when its stored copy is delivered. `jetstream` has a connection of its own, because the main one may be behind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from router.core.errors import RouterError
from router.delivery.api import JetStream, StoredMessage
from router.delivery.stream_reader import StreamReader, open_reader

READ_AHEAD = "router-read-ahead"  # the consumer's name
READ_BATCH = 200  # messages at once, so that live copies do not wait behind more
MAX_READ = 100_000  # the newest ones: the requesters of the others have given up
MAX_OF_TENANT = 256  # requests of one tenant that are taken ahead
STORING_S = 0.1  # a request that was sent before the live copies began is stored by then


class StoredTaker(Protocol):
    """Where the requests go: `LiveRequests`."""

    is_on: bool
    is_reading_ahead: bool  # few stored copies are pulled meanwhile

    @property
    def next_sequence(self) -> int:
        """The sequence after the delivery that came last."""

    def read_tenant(self, stored: StoredMessage) -> str | None:
        """The tenant of a request; None: only its delivery can be handled."""

    def take_stored(self, stored: StoredMessage, tenant: str) -> bool:
        """Queue a request. False: it is left to its delivery."""


class ReadAhead:
    """For one stream."""

    def __init__(self, jetstream: JetStream, stream: str) -> None:
        self._jetstream = jetstream
        self._stream = stream

    async def read(self, taker: StoredTaker) -> None:
        """Offer the requests that are stored now."""
        taker.is_reading_ahead = True
        try:
            await asyncio.sleep(STORING_S)
            await self._offer_all(taker)
        except RouterError:
            pass  # another instance reads, or none can: the stored copies are delivered in any case
        finally:
            taker.is_reading_ahead = False

    async def _offer_all(self, taker: StoredTaker) -> None:
        info = await self._jetstream.stream(self._stream)
        if info is not None:
            start = max(taker.next_sequence, info["state"]["last_seq"] - MAX_READ)
            async with open_reader(self._jetstream, self._stream, start, name=READ_AHEAD) as reader:
                await _offer(reader, taker)


async def _offer(reader: StreamReader, taker: StoredTaker) -> None:
    left, taken = reader.total, Counter[str]()
    while taker.is_on and left > 0 and (found := await reader.read(min(READ_BATCH, left))):
        left -= len(found)
        for stored in found:
            tenant = taker.read_tenant(stored)
            if tenant is not None and taken[tenant] < MAX_OF_TENANT:
                taken[tenant] += taker.take_stored(stored, tenant)
