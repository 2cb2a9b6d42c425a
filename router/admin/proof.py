"""What instances of one router show one another in place of the api_key: a proof that they know it.

Instances ask each other on a subject that all of them hear, so whatever goes along is a broadcast. A proof is made for one
question (subject, body), one inbox and a minute: whoever hears it can neither ask something else with it, nor have the answer
sent elsewhere. The key that makes it is derived slowly (scrypt), for a listener may try guesses on it.

    Router-Proof: <milliseconds since the epoch>.<HMAC-SHA256 of time, subject, inbox and body>
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import lru_cache

from router.clock import now_ms

PROOF = "Router-Proof"
VALID_MS = 60_000  # clocks of two hosts may differ by this
_SALT = b"router.instances.v1"


class Proofs:
    """Made and checked with the same api_key."""

    def __init__(self, api_key: bytes, clock_ms: Callable[[], int] = now_ms) -> None:
        self._key = _derived(api_key)
        self._clock_ms = clock_ms

    def make(self, subject: str, inbox: str, body: bytes) -> str:
        at = str(self._clock_ms())
        return f"{at}.{self._digest(at, subject, inbox, body)}"

    def is_valid(self, given: str, subject: str, inbox: str, body: bytes) -> bool:
        at, _, digest = given.partition(".")
        if not (at.isascii() and at.isdigit() and len(at) <= 15 and digest.isascii()):
            return False
        is_same = hmac.compare_digest(digest, self._digest(at, subject, inbox, body))
        return is_same and abs(self._clock_ms() - int(at)) <= VALID_MS

    def _digest(self, at: str, subject: str, inbox: str, body: bytes) -> str:
        said = "\n".join((at, subject, inbox, "")).encode("utf-8", "surrogatepass")
        return hmac.new(self._key, said + body, hashlib.sha256).hexdigest()


@lru_cache(maxsize=1)
def _derived(api_key: bytes) -> bytes:
    return hashlib.scrypt(api_key, salt=_SALT, n=2**14, r=8, p=1)
