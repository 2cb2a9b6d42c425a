"""A proof that an instance knows the api_key, which instances send each other instead of the key.

Instances send requests on a subject that all of them receive, so every header is a broadcast. A
proof is valid for one request (subject, body), one inbox and a minute: a listener can neither send
another request with it, nor redirect the answer. The key that signs it is derived slowly (scrypt),
because a listener may try to guess it.

    Router-Proof: <milliseconds since the epoch>.<HMAC-SHA256 of time, subject, inbox and body>
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import lru_cache

from router.core.clock import now_ms

PROOF = "Router-Proof"
VALID_MS = 60_000  # clocks of two hosts may differ by this
_SALT = b"router.instances.v1"


class Proofs:
    """Creates and checks proofs with one api_key."""

    def __init__(self, api_key: bytes, clock_ms: Callable[[], int] = now_ms) -> None:
        self._key = _derive_key(api_key)
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
        signed = "\n".join((at, subject, inbox, "")).encode("utf-8", "surrogatepass")
        return hmac.new(self._key, signed + body, hashlib.sha256).hexdigest()


@lru_cache(maxsize=1)
def _derive_key(api_key: bytes) -> bytes:
    return hashlib.scrypt(api_key, salt=_SALT, n=2**14, r=8, p=1)
