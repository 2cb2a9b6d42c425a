"""How often a password may be tried, so that guessing is slow however fast the client is, and
cannot fill the memory.

    one address     5 wrong ones at once, then one in 10 s
    all together    50 at once, then one a second
    at a time       one is compared, at most 8 wait: each takes 50 ms of a core and 64 MiB

An address from which a user logged in lately is not kept out by the guesses of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cachetools import TTLCache

from router.core.clock import Clock, steady
from router.operate.admin.key_guesses import TokenBucket

ONE, ONE_PER_S = 5.0, 0.1
ALL, ALL_PER_S = 50.0, 1.0
ADDRESSES = 1_024  # remembered
TRUSTED_S = 600.0
MAX_WAITING = 8
RETRY_AFTER_S = 10


class TooManyLogins(Exception):
    """Nothing was compared."""


class LoginAttempts:
    def __init__(self, clock: Clock = steady) -> None:
        self._clock = clock
        self._all = TokenBucket(ALL, ALL_PER_S, ALL, clock())
        self._addresses: TTLCache[str, TokenBucket] = TTLCache(
            ADDRESSES, ONE / ONE_PER_S, timer=clock
        )
        self._trusted: TTLCache[str, bool] = TTLCache(ADDRESSES, TRUSTED_S, timer=clock)
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    @asynccontextmanager
    async def take_turn(self, address: str) -> AsyncIterator[None]:
        """Within it one password is compared. Raises TooManyLogins."""
        if self._waiting >= MAX_WAITING:
            raise TooManyLogins
        self._waiting += 1
        try:
            async with self._turn:
                # looked at in turn: of those that wait each has had its answer
                if not self._may_try(address):
                    raise TooManyLogins
                yield
        finally:
            self._waiting -= 1

    def record(self, address: str, *, is_right: bool) -> None:
        if is_right:
            self._trusted[address] = True
            return
        if address not in self._trusted:
            self._all.spend()
        self._bucket_of(address).spend()

    def _may_try(self, address: str) -> bool:
        is_known = address in self._trusted or self._all.has_token(self._clock())
        return is_known and self._bucket_of(address).has_token(self._clock())

    def _bucket_of(self, address: str) -> TokenBucket:
        bucket = self._addresses.get(address)
        if bucket is None:
            bucket = TokenBucket(ONE, ONE_PER_S, ONE, self._clock())
        # its time begins anew: it is full again when it is forgotten
        self._addresses[address] = bucket
        return bucket
