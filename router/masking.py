"""Secrets out of anything that is written down: by their key (docs/operators.md#masked), and logins inside addresses.

And lengths: a text that somebody else chose is cut before it is written into a line (`shorten`, `truncate`). Hiding a login costs
one pass over the text, however it is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

MASK = "***"
CUT = "…"  # in place of what lies too deep
MASKED_KEYS = frozenset(
    {
        "access_token",
        "api_key",
        "authorization",
        "bearer",
        "cookie",
        "credit_card",
        "email",
        "password",
        "phone",
        "refresh_token",
        "secret",
        "set_cookie",
        "ssn",
        "token",
        "x_api_key",
        "x_auth_token",
        "x_authorization",
    }
)
MAX_TEXT = 4096  # characters of one text in a log line, an error or an answer; the rest is left out
MAX_COMPLAINT = 16_384  # characters of what a command complains of: a document tells twenty problems
MAX_ITEMS = 100  # of one list or object in a log line
_ROOM_FOR_COUNT = 48  # how long the words about the cut may be
_DEEPEST = 16  # a value that holds itself must not hang the log
PEM = "-----BEGIN"
_SEED = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b")  # of an nkey
_BEHIND_PATH = re.compile(r"[?#]")
_WORD = re.compile(r'[^\s,"\\]+')  # an address stands in one word; a word ends where the next one may begin, so this is one pass


def is_masked_key(key: object) -> bool:
    """Any case; `-` and `_` are the same."""
    return isinstance(key, str) and key.lower().replace("-", "_") in MASKED_KEYS


def hide_login(address: str) -> str:
    """One server's address, with a scheme or without: everything between that and its host is hidden."""
    login, at, host = address.rpartition("@")
    scheme, slashes, _ = login.partition("//") if "//" in login else ("", "", login)
    return f"{scheme}{slashes}{MASK}@{host}" if at else address


def hide_query(address: str) -> str:
    """An address without what stands behind its path: a key is often given there."""
    if "://" not in address or not (found := _BEHIND_PATH.search(address)):
        return address
    return f"{address[: found.start()]}{found.group()}{MASK}"


def hide_keys(text: str) -> str:
    """Text into which a key itself was pasted, an nkey's seed or a PEM block, where its file's name belongs."""
    return MASK if PEM in text else _SEED.sub(MASK, text)


def has_key(text: str) -> bool:
    return PEM in text or _SEED.search(text) is not None


def hide_logins(text: str) -> str:
    """Text for people in which an address may stand: an exception's, a traceback's."""
    return _WORD.sub(_hide_login_in_word, text) if "@" in text else text


def printable(text: str) -> str:
    """For a terminal: control characters and other invisible ones as escapes; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def _hide_login_in_word(word: re.Match[str]) -> str:
    """From the first // to the last @: a password may hold both."""
    text = word.group()
    begin, end = text.find("//"), text.rfind("@")
    return f"{text[:begin]}//{MASK}{text[end:]}" if 0 <= begin <= end - 2 else text


def shorten(text: str, most: int = MAX_TEXT) -> str:
    """The beginning and the end of a long text: an exception says at its end what happened. No half of a login is left at the cut."""
    if len(text) <= most:
        return text
    kept = (most - _ROOM_FOR_COUNT) // 2
    # A word that the cut divides may be an address: an @ behind it, or a // before it, makes it one.
    head = hide_logins(f"{text[:kept]}@")[:-1]
    tail = hide_logins(f"//{text[-kept:]}").removeprefix("//")
    return f"{head} {CUT} {len(text) - 2 * kept} characters left out {CUT} {tail}"


def truncate(value: object, depth: int = 0) -> object:
    """The same value with long texts cut, and of long lists and objects the first items; for log lines."""
    match value:
        case str():
            return shorten(value)
        case _ if depth > _DEEPEST:
            return CUT
        case Mapping():
            kept = {_short_key(key): truncate(inner, depth + 1) for key, inner in islice(value.items(), MAX_ITEMS)}
            return kept if len(value) <= MAX_ITEMS else {**kept, CUT: f"{len(value) - MAX_ITEMS} left out"}
        case list() | tuple() | set() | frozenset():
            items = [truncate(inner, depth + 1) for inner in islice(value, MAX_ITEMS)]
            return items if len(value) <= MAX_ITEMS else [*items, f"{CUT} {len(value) - MAX_ITEMS} left out"]
        case bytes() | bytearray():
            return shorten(repr(value[: MAX_TEXT + 1]))
        case _:
            return value


def _short_key(key: object) -> object:
    return shorten(key, 256) if isinstance(key, str) else key


def mask_secrets(value: object, depth: int = 0) -> object:
    """The same value with what stands under a masked key hidden, however deep; the given value is left as it is."""
    if depth > _DEEPEST:
        return CUT
    match value:
        case Mapping():
            return {key: MASK if is_masked_key(key) else mask_secrets(inner, depth + 1) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [mask_secrets(inner, depth + 1) for inner in value]
        case _:
            return value
