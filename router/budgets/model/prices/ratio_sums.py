"""What samples of told tokens add up to, so that a ratio follows from them
(docs/reference/prices.md#learned).

A sum forgets: with each sample what was there before counts for DECAY of it. So sums of several
instances add up, the later one after the earlier one, to what one instance would have had of all
samples. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from router.budgets.model.prices.text_count import KINDS

SIZE = len(KINDS)
PAIRS = tuple((row, column) for row in range(SIZE) for column in range(row, SIZE))
DECAY = 0.995  # of a sample, with each one after it
_PLACES = {pair: place for place, pair in enumerate(PAIRS)}
_ERROR_STEP = 0.1
_ERROR_LEFT = 1 - _ERROR_STEP
_START = 0.05  # the weight of the documented ratio, in samples
_MOST_OF_KIND = 16.0


def _make_products() -> list[float]:
    return [0.0] * len(PAIRS)


def _make_sums() -> list[float]:
    return [0.0] * SIZE


class RatioSums(Struct):
    """Of one direction. Of least squares the `products` of two kinds' shares, in the order of
    PAIRS, and the `sums` of share and told.

    `tokens` of so many `pieces`. `compared`: how often both ways were compared with the truth; the
    errors are moving averages. `room`: tokens that may be estimated below the documented count;
    below 0 where more was.
    """

    samples: int = 0
    room: float = 0.0
    products: list[float] = field(default_factory=_make_products)
    sums: list[float] = field(default_factory=_make_sums)
    tokens: float = 0.0
    pieces: float = 0.0
    compared: int = 0
    text_error: float = 0.0
    piece_error: float = 0.0

    def add_sample(self, shares: Sequence[tuple[int, float]], told: float) -> None:
        """`shares`: of the documented count, by kind, in order; `told`: as a part of that count."""
        self.samples += 1
        self.products = [value * DECAY for value in self.products]
        self.sums = [value * DECAY for value in self.sums]
        for index, (place, share) in enumerate(shares):
            self.sums[place] += share * told
            for other, other_share in shares[index:]:
                self.products[_PLACES[place, other]] += share * other_share

    def add_pieces(self, tokens: int, pieces: int) -> None:
        self.tokens, self.pieces = self.tokens * DECAY + tokens, self.pieces * DECAY + pieces

    def add_errors(self, by_text: float, by_pieces: float) -> None:
        self.compared += 1
        self.text_error += _ERROR_STEP * (by_text - self.text_error)
        self.piece_error += _ERROR_STEP * (by_pieces - self.piece_error)

    def add_room(self, tokens: int) -> None:
        """0: of a text that was told at its documented count or above."""
        self.room = self.room * DECAY + tokens

    def add(self, later: RatioSums) -> None:
        """Add what came after this."""
        left, error_left = DECAY**later.samples, _ERROR_LEFT**later.compared
        self.samples += later.samples
        self.room = self.room * left + later.room
        self.products = [
            value * left + more for value, more in zip(self.products, later.products, strict=True)
        ]
        self.sums = [value * left + more for value, more in zip(self.sums, later.sums, strict=True)]
        self.tokens, self.pieces = (
            self.tokens * left + later.tokens,
            self.pieces * left + later.pieces,
        )
        self.compared += later.compared
        self.text_error = self.text_error * error_left + later.text_error
        self.piece_error = self.piece_error * error_left + later.piece_error

    def solve(self) -> list[float]:
        """The factors of the documented weights that explain the samples best.

        1 for a kind that never came. Gauss without a pivot: the products of samples, with something
        added to the diagonal, are positive definite.
        """
        rows = [[*self._list_row(place), self.sums[place] + _START] for place in range(SIZE)]
        for place, row in enumerate(rows):
            row[place] += _START
        for place, row in enumerate(rows):
            for below in rows[place + 1 :]:
                if part := below[place] / row[place]:
                    below[place:] = [
                        value - part * own
                        for value, own in zip(below[place:], row[place:], strict=True)
                    ]
        factors = [0.0] * SIZE
        for place in reversed(range(SIZE)):
            rest = sum(rows[place][other] * factors[other] for other in range(place + 1, SIZE))
            factors[place] = (rows[place][SIZE] - rest) / rows[place][place]
        return [min(max(factor, 0.0), _MOST_OF_KIND) for factor in factors]

    def _list_row(self, row: int) -> list[float]:
        return [self.products[_PLACES[min(row, other), max(row, other)]] for other in range(SIZE)]
