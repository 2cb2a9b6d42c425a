"""Secrets out of anything that is written down: by their key (reference, metrics and masked keys), and logins inside addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
_DEEPEST = 16  # a value that holds itself must not hang the log
_LOGINS = re.compile(r'//[^\s,"\\]*@')  # greedy on purpose: a password may hold a / or an @


def is_masked(key: object) -> bool:
    """Any case; `-` and `_` are the same."""
    return isinstance(key, str) and key.lower().replace("-", "_") in MASKED_KEYS


def without_login(address: str) -> str:
    """One server's address, with a scheme or without: everything between that and its host is hidden."""
    login, at, host = address.rpartition("@")
    scheme, slashes, _ = login.partition("//") if "//" in login else ("", "", login)
    return f"{scheme}{slashes}{MASK}@{host}" if at else address


def without_logins(text: str) -> str:
    """Text for people in which an address may stand: an exception's, a traceback's."""
    return _LOGINS.sub(f"//{MASK}@", text) if "@" in text else text


def masked(value: object, depth: int = 0) -> object:
    """The same value with what stands under a masked key hidden, however deep; the given value is left as it is."""
    if depth > _DEEPEST:
        return CUT
    match value:
        case Mapping():
            return {key: MASK if is_masked(key) else masked(inner, depth + 1) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [masked(inner, depth + 1) for inner in value]
        case _:
            return value
