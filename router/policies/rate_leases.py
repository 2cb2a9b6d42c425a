"""Takes tokens of rate limits from their documents, ahead of the requests that use them
(docs/reference/policies.md#shared-rate-limit).

    asked ──> run (a child) ──> compare-and-set of `full_at_ns` ──> the slice has tokens, or is refused until the next one
    the bucket gives no answer ──> this instance counts alone for some seconds

A lost answer, or an instance that dies, costs the tokens that it took: fewer requests are let
through, never more.
"""

from __future__ import annotations

import asyncio
from itertools import islice

from router.contracts.stored_record import record_bytes
from router.core.clock import Clock, steady
from router.core.errors import Conflict, Poison, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.server_clock import ServerClock
from router.policies.model import RateSlice, SharedRates, TokensTaken, take_tokens
from router.policies.model.rate_limits import RateRecord, build_rate_key, read_rate_record
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

AT_ONCE = 256  # documents
TRIES = 20  # of one change, against other instances
CONTENDED_S = 0.005  # then the requests look again


class RateLeases:
    """`server_clock`: what all instances compare with."""

    def __init__(
        self,
        rates: SharedRates,
        jetstream: JetStream,
        bucket: str,
        server_clock: ServerClock,
        *,
        clock: Clock = steady,
    ) -> None:
        self._rates = rates
        self._bucket = DocumentBucket(jetstream, bucket)
        self._server_clock = server_clock
        self._clock = clock
        self._asked: dict[RateSlice, None] = {}
        self._wake = asyncio.Event()
        self._lines = LogRateLimit(every_s=60.0)
        rates.on_asked, rates.on_alone = self._on_asked, self._on_alone

    def _on_asked(self, slice_: RateSlice) -> None:
        self._asked[slice_] = None
        self._wake.set()

    def _on_alone(self, cause: str) -> None:
        if self._lines.allow("alone"):
            log.warning(events.RATE_LIMITS_ALONE, cause=cause)

    async def run(self) -> None:
        """A child of the tree: until cancelled."""
        if self._asked:  # before it was started again
            self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := list(islice(self._asked, AT_ONCE)):
                for slice_ in batch:
                    del self._asked[slice_]
                await self._answer(batch)

    async def _answer(self, batch: list[RateSlice]) -> None:
        try:
            await self._server_clock.read()
            await asyncio.gather(*map(self._grow, batch))
        except RouterError as exc:
            self._rates.count_alone(str(exc))
        finally:
            for slice_ in batch:
                if slice_.is_asked:
                    slice_.answer()

    async def _grow(self, slice_: RateSlice) -> None:
        """Take tokens for a slice. Raises BrokerUnavailable, StorageFull."""
        for _ in range(TRIES):
            if not slice_.revision:
                await self._read(slice_)
            taken = self._take(slice_)
            # others only take: what this instance wrote last has no fewer tokens than there are
            if not taken.granted:
                break
            try:
                slice_.revision = await self._write(slice_, taken)
            except Conflict:
                slice_.revision = 0
                continue
            slice_.full_at_ns = taken.full_at_ns
            break
        else:
            taken = TokensTaken(0, 0, round(CONTENDED_S * 1e9))
        slice_.on_granted(taken.granted, self._clock(), taken.wait_ns / 1e9)

    async def _read(self, slice_: RateSlice) -> None:
        entry = await self._bucket.get(build_rate_key(slice_.tenant_id, slice_.policy_id))
        slice_.revision, slice_.full_at_ns = (
            (0, 0) if entry is None else (entry.revision, _read_full_at(entry.value))
        )

    def _take(self, slice_: RateSlice) -> TokensTaken:
        return take_tokens(
            slice_.limit,
            slice_.full_at_ns,
            round(self._server_clock() * 1e9),
            slice_.find_wanted(self._clock()),
        )

    async def _write(self, slice_: RateSlice, taken: TokensTaken) -> int:
        data = record_bytes(RateRecord(taken.full_at_ns))
        return await self._bucket.put(
            build_rate_key(slice_.tenant_id, slice_.policy_id),
            data,
            revision=slice_.revision or None,
        )


def _read_full_at(value: bytes) -> int:
    try:
        return read_rate_record(value).full_at_ns
    except Poison:
        return 0  # it is written again
