"""Characters by their kind: once, by pieces, however a text is cut
(docs/reference/prices.md#estimate).
"""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.budgets.model.prices import TextCount
from router.budgets.model.prices.ratio_sums import KINDS

NAMES = [name for name, _ in KINDS]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "prices.md"
# Of any character, where two letters seldom stand together, and of few, where most cuts go through
# a word.
TEXTS = st.text(max_size=200) | st.text(st.sampled_from("abé 12\n.жש你🎉"), max_size=50)


def count(*pieces: str | bytes) -> dict[str, int]:
    found = TextCount()
    for piece in pieces:
        found.add(piece)
    return {name: number for name, number in zip(NAMES, found.counts, strict=True) if number}


def test_each_script_has_its_kind() -> None:
    assert count("Hello, world 42\n") == {"word": 2, "letter": 10, "digit": 2, "sign": 1, "line": 1}
    assert count("größer") == {"word": 1, "letter": 4, "accented": 2}
    assert count("Ελλάδα и Москва") == {"greek_cyrillic": 13}
    assert count("سلام שלום") == {"hebrew_arabic": 8}
    assert count("नमस्ते ไทย") == {"indic_thai": 9}
    assert count("你好かな한글") == {"han_kana_hangul": 6}
    assert count("“x”…") == {"word": 1, "letter": 1, "sign": 3}
    assert count("🎉\x00") == {"other": 2}


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        (0x80, 0x37F, "accented"),
        (0x380, 0x53F, "greek_cyrillic"),
        (0x540, 0x7FF, "hebrew_arabic"),
        (0x800, 0xFFF, "indic_thai"),
        (0x1000, 0x1FFF, "accented"),
        (0x2000, 0x2FFF, "sign"),
        (0x3000, 0xD7FF, "han_kana_hangul"),
        (0xE000, 0xEFFF, "other"),
        (0xF000, 0xFFFF, "sign"),
        (0x10000, 0x10FFFF, "other"),
    ],
)
def test_a_kind_begins_and_ends_where_the_first_byte_of_its_script_does(
    first: int, last: int, kind: str
) -> None:
    for character in (chr(first), chr(last)):
        assert count(f"a{character}") == {"word": 1, "letter": 1, kind: 1}


def test_spaces_count_beyond_the_first_of_several() -> None:
    assert count("a b") == {"word": 2, "letter": 2}
    assert count("    x") == {"space": 3, "word": 1, "letter": 1}


def test_letters_after_a_digit_begin_a_word() -> None:
    assert count("3f2b")["word"] == 2


def test_bytes_that_are_no_text_are_counted_without_an_error() -> None:
    assert sum(count(bytes(range(256))).values()) > 0
    assert count("\ud800")  # half a surrogate pair


@given(TEXTS, st.lists(st.integers(0, 50), max_size=5))
def test_however_a_text_is_cut_the_counts_are_the_same(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert count(*[text[begin:end] for begin, end in itertools.pairwise(places)]) == count(text)


@given(TEXTS.map(lambda text: text.encode()), st.integers(0, 100))
def test_bytes_may_be_cut_inside_a_character(data: bytes, cut: int) -> None:
    assert count(data[:cut], data[cut:]) == count(data)


@given(st.text())
def test_every_character_is_counted(text: str) -> None:
    found = TextCount()
    found.add(text)
    assert found.characters == len(text)


def test_the_page_lists_the_kinds_with_their_weights() -> None:
    rows = re.findall(r"^\| `(\w+)`[^|]*\| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    assert [(name, int(weight)) for name, weight in rows] == list(KINDS)
