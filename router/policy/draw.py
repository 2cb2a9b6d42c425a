"""The weighted draw: a point on a line of 2^64, cut into shares.

The point is a hash of (policy version, tenant, key), so the same request draws the same provider on every instance,
every Python and for ever, and a recorded decision can be computed again. Shares are integers: nothing is rounded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

LINE = 1 << 64
FEW = 16  # weights


def weighted_hash(version: int, tenant_id: str, key: str) -> int:
    """0 <= point < 2^64. A tenant has no NUL in it, so no two triples are hashed alike."""
    text = f"{version}\0{tenant_id}\0{key}"
    # Half of a surrogate pair is no UTF-8, but a draw never raises.
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def cumulative_weights(weights: tuple[float, ...]) -> tuple[int, ...]:
    """Where each share but the last ends; `bisect_right(bounds, point)` is the index of who is drawn. Weights are above 0."""
    return _bounds_of_few(weights) if len(weights) <= FEW else _bounds_of_many(weights)


def _compute(weights: tuple[float, ...]) -> tuple[int, ...]:
    sums = list(accumulate(_to_fractions(weights)))
    return tuple(int(LINE * part / sums[-1]) for part in sums[:-1])


def _to_fractions(weights: Iterable[float]) -> Iterable[Fraction]:
    return map(Fraction, weights)


# 500 weights and their bounds have 50 kB. A cache is bounded by its entries, so the large ones have a smaller cache of their own.
_bounds_of_few = lru_cache(maxsize=4096)(_compute)
_bounds_of_many = lru_cache(maxsize=128)(_compute)
