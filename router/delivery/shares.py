"""Each tenant's share of a stream: once the stream is half full, a tenant above its share may store nothing more.

    look     below half: nothing is counted
             above: read headers and add up the sizes of each tenant's messages; new ones in each run, all of them once a minute
    add      what this process stores between two runs; another instance counts it in its next run

So a tenant can hold its share, what was free below the half, and what other instances stored for it within one run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

from msgspec import Struct

from router.core.backoff import spread
from router.core.clock import Clock, steady
from router.core.errors import RouterError
from router.delivery.api import JetStream, Json, StoredMessage
from router.delivery.shared_info import SharedInfo
from router.delivery.stream_reader import open_reader

COUNTED_FROM = 0.5
NEARLY_FULL_FROM = 0.9
SHARES_EVERY_S = 5.0
MAX_AGE_S = 7.0  # of the stream's info while tenants are not counted; the topology's monitor asks for it more often than that
RECOUNT_EVERY_S = 60.0
MAX_READ = 50_000  # headers in one run
READ_BATCH = 1_000
MAX_TENANTS = 10_000  # above it only the largest are kept: no other can be near its share
OVERHEAD_BYTES = 300  # estimate for a stored message beside its payload: subject, headers, the server's record


class ShareRules(Struct, frozen=True, kw_only=True):
    """`share`: the part of the stream's `max_bytes` that one tenant may hold; 1 = all."""

    stream: str
    share: float
    header: str = "tenant_id"


class TenantShares:
    """For one stream. Below half, `is_over` and `add` cost the reading of an attribute."""

    def __init__(self, jetstream: JetStream, rules: ShareRules, clock: Clock = steady, *, infos: SharedInfo | None = None) -> None:
        self._jetstream = jetstream
        self._infos = infos if infos is not None else SharedInfo(jetstream)
        self._rules = rules
        self._clock = clock
        self._counted: Counter[str] = Counter()  # bytes in the stream, by tenant
        self._added: Counter[str] = Counter()  # by this process, since the last run
        self._limit = 0.0  # bytes of one tenant; 0: nothing is counted
        self._read_to = 0
        self._anew_at = 0.0
        self._free = 0.0  # bytes until the stream is nearly full

    def is_over(self, tenant: str) -> bool:
        return bool(self._limit) and self._counted[tenant] + self._added[tenant] > self._limit

    @property
    def is_nearly_full(self) -> bool:
        """Whether the rest is reserved for tenants within their share."""
        return bool(self._limit) and self._free <= 0

    def add(self, tenant: str, size: int) -> None:
        if self._limit:
            self._added[tenant] += size + OVERHEAD_BYTES
            self._free -= size + OVERHEAD_BYTES

    async def run(self) -> None:
        """A supervised child. While the broker is unavailable, the last count is used."""
        while True:
            with suppress(RouterError):
                await self.look(0.0 if self._limit else MAX_AGE_S)
            await asyncio.sleep(spread(SHARES_EVERY_S))

    async def look(self, max_age: float = 0.0) -> None:
        """Raises BrokerUnavailable, BrokerRefused."""
        info = await self._infos.stream(self._rules.stream, max_age)
        limit = info["config"].get("max_bytes", -1) if info is not None else -1
        if info is None or limit <= 0 or self._rules.share >= 1 or info["state"]["bytes"] < COUNTED_FROM * limit:
            self._forget()
            return
        await self._count(info["state"])
        self._added.clear()
        self._free = NEARLY_FULL_FROM * limit - info["state"]["bytes"]
        self._limit = self._rules.share * limit

    def _forget(self) -> None:
        self._counted.clear()
        self._added.clear()
        self._limit, self._read_to, self._anew_at = 0.0, 0, 0.0

    async def _count(self, state: Json) -> None:
        now = self._clock()
        if now >= self._anew_at:
            self._counted.clear()
            self._read_to, self._anew_at = 0, now + RECOUNT_EVERY_S
        if self._read_to >= state["last_seq"]:
            return
        async with open_reader(self._jetstream, self._rules.stream, self._read_to + 1, headers_only=True) as reader:
            async for found in reader.read_all(READ_BATCH, MAX_READ):
                self._read_to = found[-1].sequence
                for one in found:
                    self._counted[one.headers.get(self._rules.header, "")] += _size(one)
        if len(self._counted) > MAX_TENANTS:
            self._counted = Counter(dict(self._counted.most_common(MAX_TENANTS // 10)))


def _size(head: StoredMessage) -> int:
    """`Nats-Msg-Size` is the size of the payload, which a headers-only consumer does not deliver."""
    size = head.headers.get("Nats-Msg-Size", "")
    return OVERHEAD_BYTES + (int(size) if size.isdecimal() else 0)
