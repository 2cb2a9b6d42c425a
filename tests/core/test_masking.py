"""What a log line shows of a value: enough of it, never a login, and never without end."""

from collections.abc import Callable

import pytest

from router.core.masking import (
    CUT,
    MASK,
    hide_keys,
    hide_login,
    hide_logins,
    hide_query,
    is_masked_key,
    mask_secrets,
    printable,
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
    assert truncate([1] * 100) == [1] * 100
    assert truncate([1] * 102) == [*[1] * 100, f"{CUT} 2 left out"]
    many = {f"k{number}": 1 for number in range(101)}
    cut = truncate(many)
    assert isinstance(cut, dict)
    assert (len(cut), cut[CUT]) == (101, "1 left out")
    assert truncate(dict.fromkeys(range(100), 7)) == dict.fromkeys(range(100), 7)


@pytest.mark.parametrize("length", [4096, 4097, 40_960])
def test_a_text_is_cut_in_its_middle_and_says_by_how_much(length: int) -> None:
    text = "a" * (length - 1) + "z"
    shown = shorten(text)
    assert truncate(text) == shown
    assert len(shown) <= 4096
    assert (shown[0], shown[-1]) == ("a", "z")
    letters = shown.count("a") - "characters left out".count("a")
    assert shown == text if length == 4096 else f" {length - 1 - letters} characters" in shown


def test_long_keys_and_bytes_are_cut_too() -> None:
    assert truncate({"k" * 256: b"x" * 4000}) == {"k" * 256: repr(b"x" * 4000)}
    ((key, value),) = truncate({"k" * 257: b"x" * 9000}).items()  # type: ignore[attr-defined]
    assert (len(key) <= 256, len(value) <= 4096, value[:3]) == (True, True, "b'x")


@pytest.mark.parametrize("before", [True, False])
def test_a_cut_leaves_no_half_of_a_login(*, before: bool) -> None:
    for letters in range(1980, 2060):
        parts = "a" * letters, "nats://user:secret-secret@host", "b" * 9000
        shown = shorten(" ".join(parts if before else reversed(parts)))
        assert "secr" not in shown
        assert "cret" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no address", "no address"),
        ("to nats://user:pass@host:4222 and on", f"to nats://{MASK}@host:4222 and on"),
        ("//user:pass@host", f"//{MASK}@host"),
        ("nats://@host", f"nats://{MASK}@host"),
        ("a//b//c@d@host", f"a//{MASK}@host"),
        ("someone@example.org", "someone@example.org"),
        ("someone@example.org//way", "someone@example.org//way"),
    ],
)
def test_a_login_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert hide_logins(text) == shown


@pytest.mark.parametrize(
    ("hide", "text", "shown"),
    [
        (hide_login, "user:pass@host:4222", f"{MASK}@host:4222"),
        (hide_login, "nats://user:p//s@host", f"nats://{MASK}@host"),
        (hide_login, "nats://host", "nats://host"),
        (hide_query, "https://host/way?key=1#place", f"https://host/way?{MASK}"),
        (hide_query, "https://host/way#place", f"https://host/way#{MASK}"),
        (hide_query, "is it?", "is it?"),
        (hide_keys, f"seed S{'UA' * 28}U, read", f"seed {MASK}, read"),
        (hide_keys, "a -----BEGIN KEY", MASK),
        (hide_keys, "seed.txt", "seed.txt"),
        (hide_keys, f"a rk_{'0a' * 6}_{'f9' * 32}: refused", f"a {MASK}: refused"),
        (printable, "a\x1b\n\u202e", "a\\x1b\n\\u202e"),
    ],
)
def test_each_kind_of_secret_and_of_steering_is_hidden(
    hide: Callable[[str], str], text: str, shown: str
) -> None:
    assert hide(text) == shown


def test_a_masked_key_is_known_in_any_spelling_and_as_deep_as_is_shown() -> None:
    assert [is_masked_key(key) for key in ("X-API-Key", "keys", 7)] == [True, False, False]
    assert mask_secrets([{"Password": 1, "b": ({"token": []},)}]) == [
        {"Password": MASK, "b": [{"token": MASK}]}
    ]
