"""How many wrong keys are looked at: guessing the api_key is slow, whatever the guesser's speed.

An asker is known by the inbox it asks from (its first two tokens: one connection). Above the allowance nothing is compared, so a
right key among too many wrong ones is no hit. An asker that gave the right key lately is always looked at: a flood of guesses
does not shut out an operator who is at work. One whose connection is new may be told to ask again while guesses come from many inboxes.

    of one asker       20 wrong keys at once, then one a second
    of all together    100 at once, then ten a second
"""

from __future__ import annotations

from cachetools import TTLCache
from msgspec import Struct

from router.clock import Clock, steady

ONE, ONE_PER_S = 20.0, 1.0
ALL, ALL_PER_S = 100.0, 10.0
ASKERS = 1_024  # remembered; the one longest unused goes first
TRUSTED_S = 600.0


class _Allowance(Struct):
    """Tokens that come back with time."""

    most: float
    per_s: float
    left: float
    at: float

    def is_left(self, now: float) -> bool:
        self.left = min(self.most, self.left + (now - self.at) * self.per_s)
        self.at = now
        return self.left >= 1

    def spend(self) -> None:
        self.left = max(0.0, self.left - 1)


class Guesses:
    """Ask `may_try` before a key is compared; tell `wrong` or `right` afterwards."""

    def __init__(self, clock: Clock = steady) -> None:
        self._clock = clock
        self._all = _Allowance(ALL, ALL_PER_S, ALL, clock())
        self._askers: TTLCache[str, _Allowance] = TTLCache(ASKERS, ONE / ONE_PER_S, timer=clock)
        self._trusted: TTLCache[str, bool] = TTLCache(ASKERS, TRUSTED_S, timer=clock)

    def may_try(self, inbox: str) -> bool:
        now, asker = self._clock(), _asker_of(inbox)
        if asker in self._trusted:
            return True
        return self._all.is_left(now) and self._of(asker, now).is_left(now)

    def wrong(self, inbox: str) -> None:
        now, asker = self._clock(), _asker_of(inbox)
        self._trusted.pop(asker, None)
        self._all.spend()
        self._of(asker, now).spend()

    def right(self, inbox: str) -> None:
        self._trusted[_asker_of(inbox)] = True

    def _of(self, asker: str, now: float) -> _Allowance:
        allowance = self._askers.get(asker)
        if allowance is None:
            allowance = self._askers[asker] = _Allowance(ONE, ONE_PER_S, ONE, now)
        return allowance


def _asker_of(inbox: str) -> str:
    return ".".join(inbox.split(".", 2)[:2])
