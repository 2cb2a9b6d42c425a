"""What a log line shows of a value: enough of it, never a login, and never without end."""

import pytest

from router.core.masking import (
    CUT,
    MASK,
    MAX_ITEMS,
    MAX_TEXT,
    hide_logins,
    mask_secrets,
    shorten,
    truncate,
)


def nest(depth: int, value: object) -> object:
    for _ in range(depth):
        value = {"in": value}
    return value


def read_innermost(value: object) -> object:
    while isinstance(value, dict):
        value = value["in"]
    return value


@pytest.mark.parametrize(("depth", "shown"), [(1, 7), (16, 7), (17, CUT), (40, CUT)])
def test_sixteen_levels_are_shown(depth: int, shown: object) -> None:
    assert read_innermost(truncate(nest(depth, 7))) == shown
    assert read_innermost(mask_secrets(nest(depth, 7))) == shown


def test_a_hundred_items_are_shown_and_the_others_counted() -> None:
    assert truncate([1] * MAX_ITEMS) == [1] * MAX_ITEMS
    assert truncate([1] * (MAX_ITEMS + 2)) == [*[1] * MAX_ITEMS, f"{CUT} 2 left out"]
    many = {f"k{number}": 1 for number in range(MAX_ITEMS + 1)}
    cut = truncate(many)
    assert isinstance(cut, dict)
    assert (len(cut), cut[CUT]) == (MAX_ITEMS + 1, "1 left out")


@pytest.mark.parametrize("length", [MAX_TEXT, MAX_TEXT + 1, 10 * MAX_TEXT])
def test_a_text_is_cut_in_its_middle_and_says_by_how_much(length: int) -> None:
    shown = shorten("a" * (length - 1) + "z")
    assert len(shown) <= MAX_TEXT
    assert (shown[0], shown[-1]) == ("a", "z")
    assert ("characters left out" in shown) == (length > MAX_TEXT)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no address", "no address"),
        ("to nats://user:pass@host:4222 and on", f"to nats://{MASK}@host:4222 and on"),
        ("someone@example.org", "someone@example.org"),
    ],
)
def test_a_login_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert hide_logins(text) == shown
