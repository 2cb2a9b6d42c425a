"""Hides secrets in everything that is written: values of masked keys
(docs/reference/operators.md#masked), and logins inside addresses.

It also limits lengths: a text from outside is cut before it is logged (`shorten`, `truncate`).
Hiding a login costs one pass over the text, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

MASK = "***"
CUT = "…"  # in place of values nested too deeply
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
MAX_TEXT = 4096  # characters of one text in a log line, an error or an answer
MAX_COMPLAINT = 16_384  # characters of a command's error: a document may have twenty problems
MAX_ITEMS = 100  # of one list or object in a log line
_ROOM_FOR_COUNT = 48  # for the note about the cut
_DEEPEST = 16  # a value that contains itself must not block the log
PEM = "-----BEGIN"
# the seed of an nkey, or an API key of the gateway
_SEED = re.compile(r"\bS[ACNOUX][A-Z2-7]{56}\b|\brk_[0-9a-f]{12}_[0-9a-f]{64}\b")
_BEHIND_PATH = re.compile(r"[?#]")
# an address is within one word; words do not overlap, so this is one pass
_WORD = re.compile(r'[^\s,"\\]+')


def is_masked_key(key: object) -> bool:
    """Whether the values of this key are secret; case, `-` and `_` do not matter."""
    return isinstance(key, str) and key.lower().replace("-", "_") in MASKED_KEYS


def hide_login(address: str) -> str:
    """The address of one server, with or without a scheme: everything between that and the host is
    hidden.
    """
    login, at, host = address.rpartition("@")
    scheme, slashes, _ = login.partition("//") if "//" in login else ("", "", login)
    return f"{scheme}{slashes}{MASK}@{host}" if at else address


def hide_query(address: str) -> str:
    """An address without its query and fragment, which often contain a key."""
    if "://" not in address or not (found := _BEHIND_PATH.search(address)):
        return address
    return f"{address[: found.start()]}{found.group()}{MASK}"


def hide_keys(text: str) -> str:
    """Hide an nkey's seed, an API key or a PEM block that was pasted where another text belongs."""
    return MASK if PEM in text else _SEED.sub(MASK, text)


def has_key(text: str) -> bool:
    return PEM in text or _SEED.search(text) is not None


def hide_logins(text: str) -> str:
    """Hide logins in any text that may contain an address: an exception, a traceback."""
    return _WORD.sub(_hide_login_in_word, text) if "@" in text else text


def printable(text: str) -> str:
    """The text for a terminal: control characters and other invisible ones are escaped; line breaks
    stay.
    """
    if text.isprintable():
        return text
    return "".join(
        c
        if c.isprintable() or c == "\n"
        else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def _hide_login_in_word(word: re.Match[str]) -> str:
    """From the first // to the last @: a password may contain both."""
    text = word.group()
    begin, end = text.find("//"), text.rfind("@")
    return f"{text[:begin]}//{MASK}{text[end:]}" if 0 <= begin <= end - 2 else text


def shorten(text: str, most: int = MAX_TEXT) -> str:
    """The beginning and the end of a long text: an exception describes at its end what happened.
    The cut leaves no half of a login.
    """
    if len(text) <= most:
        return text
    kept = (most - _ROOM_FOR_COUNT) // 2
    # A word that the cut divides may be an address: an @ behind it, or a // before it, makes it
    # one.
    head = hide_logins(f"{text[:kept]}@")[:-1]
    tail = hide_logins(f"//{text[-kept:]}").removeprefix("//")
    return f"{head} {CUT} {len(text) - 2 * kept} characters left out {CUT} {tail}"


def truncate(value: object, depth: int = 0) -> object:
    """The same value for a log line: long texts are cut, long lists and objects keep their first
    items.
    """
    match value:
        case str():
            return shorten(value)
        case _ if depth > _DEEPEST:
            return CUT
        case Mapping():
            kept = {
                _short_key(key): truncate(inner, depth + 1)
                for key, inner in islice(value.items(), MAX_ITEMS)
            }
            return (
                kept
                if len(value) <= MAX_ITEMS
                else {**kept, CUT: f"{len(value) - MAX_ITEMS} left out"}
            )
        case list() | tuple() | set() | frozenset():
            items = [truncate(inner, depth + 1) for inner in islice(value, MAX_ITEMS)]
            return (
                items
                if len(value) <= MAX_ITEMS
                else [*items, f"{CUT} {len(value) - MAX_ITEMS} left out"]
            )
        case bytes() | bytearray():
            return shorten(repr(value[: MAX_TEXT + 1]))
        case _:
            return value


def _short_key(key: object) -> object:
    return shorten(key, 256) if isinstance(key, str) else key


def mask_secrets(value: object, depth: int = 0) -> object:
    """A copy of the value in which the values of masked keys are hidden, however deep."""
    if depth > _DEEPEST:
        return CUT
    match value:
        case Mapping():
            return {
                key: MASK if is_masked_key(key) else mask_secrets(inner, depth + 1)
                for key, inner in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [mask_secrets(inner, depth + 1) for inner in value]
        case _:
            return value
