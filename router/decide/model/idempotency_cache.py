"""One request gets one answer: this instance's decisions, cached by request identity.

Only decisions are cached: a refusal has no effect that could happen twice, and a client that asks
again after its policy was mended should get a new answer. When an entry is gone, the deterministic
draw gives the same decision again.

The same request is the same content (`contracts.content`): a fresh trace id and another order of
keys change nothing.

Operators look decisions up in the same cache by a request's ids. It has no index for them: they
wait for a search.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from math import inf
from operator import itemgetter
from typing import Protocol

from msgspec import Struct

from router.contracts.content import digest, is_same
from router.contracts.decision import EXECUTED_EXTENSIONS, Decision, RouteRequest
from router.core.bounded_cache import PartedCache, weight_of
from router.core.clock import Clock, steady

KILOBYTE = 1024  # of one weight
# bytes of a request that are kept as they are; of a larger one a digest, which costs as much as
# reading it
MAX_KEPT_BYTES = 16 * KILOBYTE
ENTRIES_PER_TURN = 2_000  # entries looked at in one turn of the loop: about a millisecond


class CacheResult(Enum):
    """The result of a lookup that finds no decision."""

    NEW = "new"
    CONFLICT = "conflict"  # the same identity came with other content


class CachedDecision(Struct, frozen=True, gc=False):
    """One decision, and the ids of its request."""

    decision: Decision
    # the request's bytes; of large ones a digest; None: an idempotency key stands for the request
    content: bytes | str | None
    answer_id: str
    message_id: str | None
    trace_id: str | None
    has_request_id: bool  # else `answer_id` is a message id too, the payload's own
    life: int = 0  # of the connection

    def has_ids(self, request_id: str | None, message_id: str | None) -> bool:
        is_message = message_id in (None, self.message_id) or (
            message_id == self.answer_id and not self.has_request_id
        )
        return is_message and request_id in (None, self.answer_id)


class StoringConnection(Protocol):
    """The connection to the server that stores what a decision leaves behind."""

    @property
    def reconnect_count(self) -> int:
        """How often it was lost. A server that was away may have lost what was stored."""


class IdempotencyCache:
    """At most `limit` decisions for `ttl_s` seconds each; the least recently used one is dropped
    first.
    """

    def __init__(
        self,
        connection: StoringConnection,
        limit: int = 100_000,
        ttl_s: float = 600.0,
        clock: Clock = steady,
    ) -> None:
        self._connection = connection
        self._ttl_s = ttl_s
        self._clock = clock
        self.is_of_this_life = True  # the decision that was recalled last
        self._cached: PartedCache[str, CachedDecision] = PartedCache(limit)
        # looked up last: nearly always the next to be remembered
        self._request: RouteRequest | None = None
        self._request_key = ""

    def recall(self, request: RouteRequest, data: bytes, now: float) -> Decision | CacheResult:
        """The decision of the same request, NEW, or CONFLICT. `now`: of the clock, which the caller
        has read already.
        """
        self._request, self._request_key = request, f"{request.tenant_id}\0{request.request_key}"
        cached = self._cached.get(self._request_key, now)
        if cached is None:
            return CacheResult.NEW
        self.is_of_this_life = cached.life == self._connection.reconnect_count
        return cached.decision if _is_same(cached.content, data) else CacheResult.CONFLICT

    def remember(
        self,
        request: RouteRequest,
        data: bytes,
        decision: Decision,
        now: float,
        digested: str | None = None,
    ) -> None:
        """`digested`: the digest of the request's content, where it is known already."""
        size, weight = len(data), 1
        content: bytes | str | None = None
        if size <= MAX_KEPT_BYTES:  # keeping the bytes costs an ordinary request nothing
            weight += size // KILOBYTE
        if request.idempotency_key is None:
            content = data if size <= MAX_KEPT_BYTES else digested or digest(data)
        has_id = request.request_id is not None
        life = self._connection.reconnect_count
        cached = CachedDecision(
            decision, content, request.answer_id, request.message_id, request.trace_id, has_id, life
        )
        # of no plan: its metadata may hold what extensions added
        if EXECUTED_EXTENSIONS in decision.metadata:
            weight += weight_of(decision.metadata)
        key = (
            self._request_key
            if request is self._request
            else _key(request.tenant_id, request.request_key)
        )
        self._cached.put(
            key, cached, now + self._ttl_s, now, owner=request.tenant_id, weight=weight
        )

    async def find(
        self, tenant_id: str, *, request_id: str | None = None, message_id: str | None = None
    ) -> CachedDecision | None:
        """The newest decision of a tenant's request that went by these ids; at least one is given."""
        for given in (request_id, message_id):  # most requests are kept under one of them
            cached = (
                self._cached.peek(_key(tenant_id, given), self._clock())
                if given is not None
                else None
            )
            if cached is not None and cached.has_ids(request_id, message_id):
                return cached
        return await self._search(tenant_id, request_id, message_id)

    async def _search(
        self, tenant_id: str, request_id: str | None, message_id: str | None
    ) -> CachedDecision | None:
        mine = _key(tenant_id, "")
        newest: tuple[float, CachedDecision | None] = (-inf, None)
        for keys in self._cached.list_keys():
            for first in range(0, len(keys), ENTRIES_PER_TURN):
                some = keys[first : first + ENTRIES_PER_TURN]
                of_tenant = [key for key in some if key.startswith(mine)]
                found = self._find_by_ids(of_tenant, request_id, message_id)
                newest = max([newest, *found], key=itemgetter(0))
                await asyncio.sleep(0)
        return newest[1]

    def _find_by_ids(
        self, keys: Iterable[str], request_id: str | None, message_id: str | None
    ) -> list[tuple[float, CachedDecision]]:
        """Those that went by these ids, and when each expires."""
        now = self._clock()
        return [
            (self._cached.find_expiry(key), cached)
            for key in keys
            if (cached := self._cached.peek(key, now)) and cached.has_ids(request_id, message_id)
        ]

    def __len__(self) -> int:
        return len(self._cached)


def _is_same(content: bytes | str | None, data: bytes) -> bool:
    if content is None or content == data:
        return True
    return digest(data) == content if isinstance(content, str) else is_same(content, data)


def _key(tenant_id: str, request_key: str) -> str:
    """A text, not a tuple, which the collector would look at. No tenant id holds a zero byte."""
    return f"{tenant_id}\0{request_key}"
