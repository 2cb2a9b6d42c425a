"""Each tenant's share of a stream: once the stream is half full, a tenant above its share may store
nothing more.

    look     below 40 %: nothing is counted
             above: read headers and add up the sizes of each tenant's messages: new ones in each
             run, and all of them once a minute, in a second count that replaces the one in use when
             it is whole above half: shares apply; mostly the first count is whole by then
    add      what this process stores between two runs; another instance counts it in its next run

So a tenant can hold its share, what was free below the half, and what other instances stored for it
within one run. What has left the stream counts for two minutes at most; longer above 600 000
messages, which take more than a minute to count.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from msgspec import Struct, field

from router.core.clock import Clock, spread, steady
from router.core.errors import RouterError
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, StoredMessage
from router.delivery.wire.shared_info import SharedInfo

COUNTED_FROM = 0.4
APPLIED_FROM = 0.5
NEARLY_FULL_FROM = 0.9
SHARES_EVERY_S = 5.0
# of the stream's info while tenants are not counted; the topology's monitor asks for it more often
# than that
MAX_AGE_S = 7.0
RECOUNT_EVERY_S = 60.0
MAX_READ = 50_000  # headers in one run, of the new messages and of all
READ_BATCH = 1_000
MAX_TENANTS = 10_000  # above it only the largest are kept: no other can be near its share
TENANT_HEADER = "tenant_id"
# estimate for a stored message beside its payload: subject, headers, the server's record
OVERHEAD_BYTES = 300


class _Count(Struct):
    """Bytes in the stream by tenant, of the messages up to the sequence `read_to`."""

    begun_at: float
    read_to: int = 0
    sizes: Counter[str] = field(default_factory=Counter)


class TenantShares:
    """For one stream. Below 40 %, `is_over` and `add` cost the reading of an attribute."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        share: float,
        clock: Clock = steady,
        *,
        infos: SharedInfo | None = None,
    ) -> None:
        """`share`: the part of the stream's `max_bytes` that one tenant may hold; 1 = all."""
        self._jetstream = jetstream
        self._infos = infos if infos is not None else SharedInfo(jetstream)
        self._stream, self._share = stream, share
        self._clock = clock
        self._counted = _Count(clock())  # the count in use
        self._recount: _Count | None = None  # a count of all messages that is under way
        self._is_counting = False
        # by this process, since the count in use was last at the end of the stream
        self._added: Counter[str] = Counter()
        self._limit = 0.0  # bytes of one tenant; 0: shares do not apply
        self._free = 0.0  # bytes until the stream is nearly full

    def is_over(self, tenant: str) -> bool:
        return bool(self._limit) and self._counted.sizes[tenant] + self._added[tenant] > self._limit

    @property
    def is_nearly_full(self) -> bool:
        """Whether the rest is reserved for tenants within their share."""
        return bool(self._limit) and self._free <= 0

    def add(self, tenant: str, size: int) -> None:
        if self._is_counting:
            self._added[tenant] += size + OVERHEAD_BYTES
            self._free -= size + OVERHEAD_BYTES

    async def run(self) -> None:
        """A supervised child. While the broker is unavailable, the last count is used."""
        while True:
            with suppress(RouterError):
                await self.look(0.0 if self._is_counting else MAX_AGE_S)
            await asyncio.sleep(spread(SHARES_EVERY_S))

    async def look(self, max_age: float = 0.0) -> None:
        """Count, if the stream is full enough. Raises BrokerUnavailable, BrokerRefused."""
        before = self._added.copy()
        info = await self._infos.stream(self._stream, max_age)
        limit = info["config"].get("max_bytes", -1) if info is not None else -1
        if (
            info is None
            or limit <= 0
            or self._share >= 1
            or info["state"]["bytes"] < COUNTED_FROM * limit
        ):
            self._forget()
            return
        self._is_counting = True
        self._free = NEARLY_FULL_FROM * limit - info["state"]["bytes"]
        self._limit = self._share * limit if info["state"]["bytes"] >= APPLIED_FROM * limit else 0.0
        is_whole = await self._count(info["state"]["last_seq"])
        # A whole count holds what was added before the info was asked for. What was added since
        # stays: it may count twice, for one run. An unfinished count keeps all: at most what this
        # process stored since the last whole count counts twice.
        self._added = _keep_largest(self._added - before if is_whole else self._added)

    def _forget(self) -> None:
        self._counted, self._recount = _Count(self._clock()), None
        self._added.clear()
        self._is_counting, self._limit = False, 0.0

    async def _count(self, last: int) -> bool:
        """Read new messages into the count in use; once it is whole, and a minute old, read all
        messages into a second one.

        Return whether the count in use holds all up to the sequence `last`.
        """
        if not await self._extend(self._counted, last):
            return False
        if self._recount is None and self._clock() - self._counted.begun_at >= RECOUNT_EVERY_S:
            self._recount = _Count(self._clock())
        if self._recount is not None and await self._extend(self._recount, last):
            self._counted, self._recount = self._recount, None
        return True

    async def _extend(self, count: _Count, last: int) -> bool:
        """Read at most MAX_READ further messages; return whether the count holds all up to `last`.
        It may hold some that came since.
        """
        if count.read_to >= last:
            return True
        async with open_reader(
            self._jetstream, self._stream, count.read_to + 1, headers_only=True
        ) as reader:
            async for batch in reader.read_all(READ_BATCH, MAX_READ):
                count.read_to = batch[-1].sequence
                for message in batch:
                    count.sizes[message.headers.get(TENANT_HEADER, "")] += _size(message)
        count.sizes = _keep_largest(count.sizes)
        if reader.total <= MAX_READ:
            count.read_to = max(count.read_to, last)  # the last ones may have been removed
        return count.read_to >= last


def _keep_largest(sizes: Counter[str]) -> Counter[str]:
    return (
        sizes if len(sizes) <= MAX_TENANTS else Counter(dict(sizes.most_common(MAX_TENANTS // 10)))
    )


def _size(head: StoredMessage) -> int:
    """`Nats-Msg-Size` is the size of the payload, which a headers-only consumer does not deliver."""
    size = head.headers.get("Nats-Msg-Size", "")
    return OVERHEAD_BYTES + (int(size) if size.isdecimal() else 0)
