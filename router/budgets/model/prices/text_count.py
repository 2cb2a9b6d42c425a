"""How much text passed by, by kind of character (docs/reference/prices.md#estimate).

A text is looked at once, as UTF-8 and by functions of `bytes`: the first byte of a character tells
its script nearly always. A piece of 1 MB takes about ten milliseconds, one of a few characters a
microsecond or two. However a text is cut, the counts are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

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
