"""How many tokens a text has: by a documented ratio, or by what a provider told of texts before.

    told of whole texts ──> TokenRatio of (tenant, provider, model), input and output apart
                               tokens of a kind of character    least squares
                               tokens of a piece                what came in pieces
    a text that was cut ──> the one of the two that was nearer so far
                            before MIN_SAMPLES: the documented ratio

A provider and model have one tokenizer for all tenants, and yet each tenant has a ratio of its own:
a tenant chooses its texts, and so could move the ratio that another one is billed by. A sample and
an estimate stay within half and eight times the documented count: downwards the payer gains,
upwards lies what a provider counts and does not show, as reasoning (docs/reference/prices.md#learned).

A tenant could teach a low ratio with odd texts, and have its cut streams estimated by it. So an
estimate below the documented count takes from a room, of tokens that were told below it and billed:
such texts cost the tenant at least what they save.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from router.core.bounded_cache import BoundedCache
from router.routing.prices.text_count import KINDS, weigh

MIN_SAMPLES = 8
MIN_PIECES = 4  # below it pieces say nothing
MAX_RATIOS = 1024  # then the least recently used goes, of a tenant above its share first
LEAST, MOST = 0.5, 8.0  # of the documented count
ONE_A_PIECE = 0.8, 1.25  # of the documented count: so many pieces are tokens, without samples
_DECAY = 0.995  # of a sample, with each one after it
_START = 0.05  # the weight of the documented ratio, in samples
_ERROR_STEP = 0.1
_MOST_OF_KIND = 16.0
_SIZE = len(KINDS)
# Factors are solved anew after an eighth of the samples that there are, after 16 at most.
_FRESH, _MOST_STALE = 8, 16


class TokenRatio:
    """Of one direction.

    A sample costs some microseconds, and is taken only where a provider told its tokens.
    """

    __slots__ = ("_factors", "_piece_error", "_pieces", "_products", "_solved_at", "_sums", "_text_error", "_tokens", "room", "samples")

    def __init__(self) -> None:
        self.samples = 0
        self.room = 0.0  # tokens that may be estimated below the documented count
        self._products = [0.0] * (_SIZE * _SIZE)
        self._sums = [0.0] * _SIZE
        self._factors: list[float] = []  # solved when they are needed
        self._solved_at = 0  # samples
        self._tokens = self._pieces = 0.0
        self._text_error = self._piece_error = 0.0

    def learn(self, counts: Sequence[int], pieces: int, tokens: int) -> None:
        """Take what was told of a whole text; `pieces`: 0 where it came at once."""
        documented = weigh(counts)
        if not documented or not tokens:
            return
        self._note_errors(counts, pieces, tokens)
        self.samples += 1
        told = min(max(tokens / documented, LEAST), MOST)
        shares = [(place, part / documented) for place, part in _weigh_kinds(counts)]
        self._products = [value * _DECAY for value in self._products]
        self._sums = [value * _DECAY for value in self._sums]
        for place, share in shares:
            self._sums[place] += share * told
            for other, other_share in shares:
                self._products[place * _SIZE + other] += share * other_share
        if pieces >= MIN_PIECES:
            self._tokens, self._pieces = self._tokens * _DECAY + tokens, self._pieces * _DECAY + pieces

    def add_room(self, counts: Sequence[int], tokens: int) -> None:
        """Take the tokens of a whole text that were told and billed."""
        self.room *= _DECAY
        if tokens < weigh(counts):
            self.room += tokens

    def take_room(self, counts: Sequence[int], pieces: int) -> None:
        """Take what an estimate needs that is billed: nothing where it is not below the documented count."""
        documented = weigh(counts)
        if documented and self._find(documented, counts, pieces) < documented:
            self.room -= documented

    def estimate(self, counts: Sequence[int], pieces: int) -> int:
        """Estimate the tokens: at least one for any text. `pieces`: 0 where it came at once."""
        documented = weigh(counts)
        if not documented:
            return 0
        return max(1, math.floor(self._find(documented, counts, pieces) + 0.5))

    def _find(self, documented: float, counts: Sequence[int], pieces: int) -> float:
        if self.samples < MIN_SAMPLES:
            return _guess(documented, pieces)
        if self._has_pieces(pieces) and self._piece_error <= self._text_error:
            found = self._estimate_by_pieces(pieces)
        else:
            found = self._estimate_by_text(counts)
        least = LEAST * documented if self.room >= documented else documented
        return min(max(found, least), MOST * documented)

    def _has_pieces(self, pieces: int) -> bool:
        return pieces >= MIN_PIECES and self._pieces > 0

    def _estimate_by_pieces(self, pieces: int) -> float:
        return pieces * self._tokens / self._pieces

    def _estimate_by_text(self, counts: Sequence[int]) -> float:
        if not self._factors or self.samples - self._solved_at >= min(max(self.samples // _FRESH, 1), _MOST_STALE):
            self._factors, self._solved_at = _solve(self._products, self._sums), self.samples
        factors = self._factors
        return sum(part * factors[place] for place, part in _weigh_kinds(counts))

    def _note_errors(self, counts: Sequence[int], pieces: int, tokens: int) -> None:
        """Compare both ways with the truth, before they learn it."""
        if self.samples >= MIN_SAMPLES and self._has_pieces(pieces):
            self._text_error += _ERROR_STEP * (_find_error(self._estimate_by_text(counts), tokens) - self._text_error)
            self._piece_error += _ERROR_STEP * (_find_error(self._estimate_by_pieces(pieces), tokens) - self._piece_error)


class TokenRatios:
    """Of one tenant, provider and model."""

    __slots__ = ("input", "output")

    def __init__(self) -> None:
        self.input = TokenRatio()
        self.output = TokenRatio()


class LearnedRatios:
    """The ratios of this process; a new one begins with the documented ones."""

    def __init__(self) -> None:
        self._ratios: BoundedCache[tuple[str, str, str], TokenRatios] = BoundedCache(MAX_RATIOS)

    def find(self, tenant_id: str, provider_id: str, model: str | None) -> TokenRatios:
        """What was learned; new ones, which are not kept, where nothing was."""
        return self._ratios.get((tenant_id, provider_id, model or ""), 0.0) or TokenRatios()

    def open(self, tenant_id: str, provider_id: str, model: str | None) -> TokenRatios:
        """Return those that are kept, to learn."""
        key = tenant_id, provider_id, model or ""
        ratios = self._ratios.get(key, 0.0)
        if ratios is None:
            ratios = TokenRatios()
            self._ratios.put(key, ratios, math.inf, 0.0, owner=tenant_id)
        return ratios

    def __len__(self) -> int:
        return len(self._ratios)


def _guess(documented: float, pieces: int) -> float:
    """Most models send one token a piece: about as many pieces as there should be tokens are tokens."""
    low, high = ONE_A_PIECE
    return float(pieces) if pieces >= MIN_PIECES and low * documented <= pieces <= high * documented else documented


def _find_error(estimated: float, tokens: int) -> float:
    return abs(math.log(max(estimated, 1.0) / tokens))


def _weigh_kinds(counts: Sequence[int]) -> list[tuple[int, float]]:
    """The documented tokens of each kind that is there."""
    return [(place, weight / 1000 * count) for place, ((_, weight), count) in enumerate(zip(KINDS, counts, strict=True)) if count]


def _solve(products: Sequence[float], sums: Sequence[float]) -> list[float]:
    """The factors of the documented weights that explain the samples best.

    1 for a kind that never came. Gauss without a pivot: the products of samples, with something
    added to the diagonal, are positive definite.
    """
    rows = [[*products[place * _SIZE : (place + 1) * _SIZE], sums[place] + _START] for place in range(_SIZE)]
    for place, row in enumerate(rows):
        row[place] += _START
    for place, row in enumerate(rows):
        for below in rows[place + 1 :]:
            if part := below[place] / row[place]:
                below[place:] = [value - part * own for value, own in zip(below[place:], row[place:], strict=True)]
    factors = [0.0] * _SIZE
    for place in reversed(range(_SIZE)):
        rest = sum(rows[place][other] * factors[other] for other in range(place + 1, _SIZE))
        factors[place] = (rows[place][_SIZE] - rest) / rows[place][place]
    return [min(max(factor, 0.0), _MOST_OF_KIND) for factor in factors]
