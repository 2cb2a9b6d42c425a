"""Which usage events were read lately, and at which sequence first: a repeated result is counted once.

Names are kept as short hashes under a key of this process: payers choose parts of them, and could look for two that are hashed alike.
"""

from __future__ import annotations

from hashlib import blake2b
from secrets import token_bytes

LIMIT = 400_000  # an event and what it refers to are two


class EventMemory:
    """The oldest is forgotten first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._key = token_bytes(16)
        self._first: dict[int, int] = {}

    def is_first(self, name: str, sequence: int) -> bool:
        """Whether no message of this name is known with a lower sequence."""
        key = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=self._key).digest())
        first = self._first.setdefault(key, sequence)
        if len(self._first) > self._limit:
            del self._first[next(iter(self._first))]
        return first >= sequence
