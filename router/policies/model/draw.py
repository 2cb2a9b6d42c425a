"""The weighted draw: a hash is a point on a line of 2^64, which is cut into shares.

The point is a hash of (policy version, tenant, key), so the same request draws the same provider on
every instance and every Python version, and a recorded decision can be computed again. Shares are
integers: no value is rounded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

DRAW_RANGE = 1 << 64
MAX_FEW_WEIGHTS = 16  # weights


def weighted_hash(version: int, tenant_id: str, key: str) -> int:
    """The point of a draw, 0 to 2^64 - 1. A tenant id holds no NUL, so different triples are
    different texts.
    """
    text = f"{version}\0{tenant_id}\0{key}"
    # Half of a surrogate pair is no UTF-8, but a draw never raises.
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )


def cumulative_weights(weights: tuple[float, ...]) -> tuple[int, ...]:
    """Where each share but the last ends; `bisect_right(ends, point)` is the index of the drawn
    one. Weights are above 0.
    """
    return _bounds_of_few(weights) if len(weights) <= MAX_FEW_WEIGHTS else _bounds_of_many(weights)


def _compute(weights: tuple[float, ...]) -> tuple[int, ...]:
    sums = list(accumulate(_to_fractions(weights)))
    return tuple(int(DRAW_RANGE * part / sums[-1]) for part in sums[:-1])


def _to_fractions(weights: Iterable[float]) -> Iterable[Fraction]:
    return map(Fraction, weights)


# 500 weights and their ends take 50 kB. A cache is bounded by its number of entries, so large ones
# have a smaller cache.
_bounds_of_few = lru_cache(maxsize=4096)(_compute)
_bounds_of_many = lru_cache(maxsize=128)(_compute)
