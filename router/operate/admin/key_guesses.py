"""Limits wrong api_keys, so that guessing a key is slow however fast the client is.

A client is identified by its inbox (the first two tokens: one connection). Above the limit no key
is compared, so a right key among too many wrong ones does not succeed. A client that recently sent
the right key is always checked: a flood of guesses does not lock out an operator. A new connection
may be refused as `overloaded` while guesses arrive from many inboxes.

    one client         20 wrong keys at once, then one a second
    all together       100 at once, then ten a second
"""

from __future__ import annotations

from cachetools import TTLCache
from msgspec import Struct

from router.core.clock import Clock, steady

ONE, ONE_PER_S = 20.0, 1.0
ALL, ALL_PER_S = 100.0, 10.0
CLIENTS = 1_024  # remembered; the least recently used is dropped first
TRUSTED_S = 600.0


class TokenBucket(Struct):
    """Tokens that are refilled over time."""

    most: float
    per_s: float
    left: float
    at: float

    def has_token(self, now: float) -> bool:
        self.left = min(self.most, self.left + (now - self.at) * self.per_s)
        self.at = now
        return self.left >= 1

    def spend(self) -> None:
        self.left = max(0.0, self.left - 1)


class KeyGuesses:
    """Call `may_try` before comparing a key, and `record_wrong` or `record_right` afterwards."""

    def __init__(self, clock: Clock = steady) -> None:
        self._clock = clock
        self._all = TokenBucket(ALL, ALL_PER_S, ALL, clock())
        self._clients: TTLCache[str, TokenBucket] = TTLCache(CLIENTS, ONE / ONE_PER_S, timer=clock)
        self._trusted: TTLCache[str, bool] = TTLCache(CLIENTS, TRUSTED_S, timer=clock)

    def may_try(self, inbox: str) -> bool:
        now, client = self._clock(), _client_of(inbox)
        if client in self._trusted:
            return True
        return self._all.has_token(now) and self._bucket_of(client, now).has_token(now)

    def record_wrong(self, inbox: str) -> None:
        now, client = self._clock(), _client_of(inbox)
        self._trusted.pop(client, None)
        self._all.spend()
        self._bucket_of(client, now).spend()

    def record_right(self, inbox: str) -> None:
        self._trusted[_client_of(inbox)] = True

    def _bucket_of(self, client: str, now: float) -> TokenBucket:
        bucket = self._clients.get(client)
        if bucket is None:
            bucket = self._clients[client] = TokenBucket(ONE, ONE_PER_S, ONE, now)
        return bucket


def _client_of(inbox: str) -> str:
    return ".".join(inbox.split(".", 2)[:2])
