"""How much text passed by, and what samples of told tokens add up to beside it, so that a ratio
follows from them (docs/reference/prices.md#learned).

A sum forgets: with each sample what was there before counts for DECAY of it. So sums of several
instances add up, the later one after the earlier one, to what one instance would have had of all
samples. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from router.contracts.stored_record import KeyedRecord
from router.core import ids
from router.core.errors import Poison

# -- How much text passed by, by kind of character (docs/reference/prices.md#estimate).
#
# A text is looked at once, as UTF-8 and by functions of `bytes`: the first byte of a character
# tells its script nearly always. A piece of 1 MB takes about ten milliseconds, one of a few
# characters a microsecond or two. However a text is cut, the counts are the same.


# What a character of each kind counts for, in thousandths of a token.
KINDS: Sequence[tuple[str, int]] = (
    ("word", 250),  # letters of Latin that stand together
    ("letter", 180),  # of Latin
    ("accented", 700),  # letter of Latin beyond ASCII
    ("digit", 400),
    ("sign", 600),  # punctuation and symbols
    ("line", 500),  # end of a line
    ("space", 100),  # beyond the first of several
    ("greek_cyrillic", 370),
    ("hebrew_arabic", 420),
    ("indic_thai", 450),
    ("han_kana_hangul", 800),
    ("other", 1200),  # emoji, rare scripts, control characters
)
WEIGHTS: Sequence[float] = tuple(weight / 1000 for _, weight in KINDS)
_LETTER, _ACCENTED, _DIGIT, _SIGN, _LINE, _SPACE = b"a", b"A", b"d", b"p", b"n", b" "
_SCRIPTS = _CYRILLIC, _ARABIC, _INDIC, _HAN, _OTHER = b"c", b"r", b"i", b"h", b"o"


def _find_kind(byte: int) -> bytes:
    """The kind of an ASCII character, or of what a first byte of UTF-8 begins."""
    character = chr(byte)
    if byte < 0x80:
        if character.isalnum():
            return _DIGIT if character.isdigit() else _LETTER
        if character == "\n":
            return _LINE
        return _SPACE if character.isspace() else _SIGN if character.isprintable() else _OTHER
    if byte <= 0xCD or byte == 0xE1:
        return _ACCENTED
    if byte <= 0xD4:
        return _CYRILLIC
    if byte <= 0xDF:
        return _ARABIC
    if byte == 0xE0:
        return _INDIC
    if byte in (0xE2, 0xEF):
        return _SIGN
    return _HAN if byte <= 0xED else _OTHER


_TO_KIND = b"".join(_find_kind(byte) for byte in range(256))
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_IS_LETTER = bytes(ord("l") if kind in b"aA" else ord(".") for kind in range(256))
_IS_SPACE = bytes(ord("s") if kind == 0x20 else ord(".") for kind in range(256))


class TextCount:
    """`counts`: in the order of KINDS. It grows by pieces of one text."""

    __slots__ = ("_last", "characters", "counts")

    def __init__(self) -> None:
        self.characters = 0
        self.counts = [0] * len(KINDS)
        self._last = _LINE  # the kind of the last character

    def add(self, data: str | bytes) -> None:
        raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
        kinds = raw.translate(_TO_KIND, _CONTINUATIONS)
        if not kinds:
            return
        joined, count, counts = self._last + kinds, kinds.count, self.counts
        self.characters += len(kinds)
        self._last = kinds[-1:]
        counts[0] += joined.translate(_IS_LETTER).count(b".l")
        counts[1] += count(_LETTER)
        counts[3] += count(_DIGIT)
        counts[4] += count(_SIGN)
        counts[5] += count(_LINE)
        if spaces := count(_SPACE):
            counts[6] += spaces - joined.translate(_IS_SPACE).count(b".s")
        if raw.isascii():
            counts[11] += count(_OTHER)
            return
        counts[2] += count(_ACCENTED)
        for place, script in enumerate(_SCRIPTS, start=7):
            counts[place] += count(script)


def weigh(counts: Sequence[int]) -> float:
    """Estimate the tokens of a text of which nothing is known but its characters."""
    return sum(weight * count for weight, count in zip(WEIGHTS, counts, strict=True) if count)


# -- What samples of told tokens add up to, so that a ratio follows from them.


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


# -- What all instances have learned of the tokens of a tenant's texts, as it stands in its bucket
# (docs/reference/prices.md#shared).
#
#     {tenant_id, kinds: {name: weight}, ratios: [{provider_id, model, input: {…}, output: {…}}]}
#
# The sums are parts of a documented count, so they mean nothing beside other kinds or weights than
# they were made with.


MAX_SHARED = 32  # providers and models of one tenant; then the one that was taught longest ago goes
_MAX_KINDS = 64

_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Sum = Annotated[float, Meta(ge=0, le=1e15)]
_Sums = Annotated[list[_Sum], Meta(max_length=_MAX_KINDS * _MAX_KINDS)]
_Name = Annotated[str, Meta(max_length=128)]


class RatioRecord(Struct, frozen=True, kw_only=True):
    """One direction: `budgets.model.prices.ratio_sums` says what the sums are."""

    samples: _Count
    room: Annotated[float, Meta(ge=-1e15, le=1e15)]
    products: _Sums
    sums: _Sums
    tokens: _Sum
    pieces: _Sum
    compared: _Count
    text_error: _Sum
    piece_error: _Sum


class SharedRatioRecord(Struct, frozen=True, kw_only=True):
    """One provider and model; the model is empty where none was told."""

    provider_id: _Name
    model: _Name
    input: RatioRecord
    output: RatioRecord


class RatiosRecord(Struct, frozen=True, kw_only=True):
    """`ratios`: the one that was taught longest ago first."""

    tenant_id: str
    kinds: Annotated[dict[str, int], Meta(max_length=_MAX_KINDS)]
    ratios: Annotated[list[SharedRatioRecord], Meta(max_length=MAX_SHARED)]

    @property
    def key(self) -> str:
        return ratios_key(self.tenant_id)


def ratios_key(tenant_id: str) -> str:
    return ids.key(tenant_id)


def read_ratios_record(key: str, data: bytes) -> RatiosRecord:
    """What stands under this key. Raises Poison for anything that no router wrote there."""
    record = _read(key, data)
    kinds = len(record.kinds)
    directions = [direction for ratio in record.ratios for direction in (ratio.input, ratio.output)]
    if any(
        (len(direction.sums), len(direction.products)) != (kinds, kinds * (kinds + 1) // 2)
        for direction in directions
    ):
        raise Poison("a record of ratios with other sums than its kinds")
    return record


_read = KeyedRecord(RatiosRecord, "a record of ratios").read
