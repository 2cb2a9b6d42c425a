"""Secrets out of anything that is written down, found by their key (reference, metrics and masked keys)."""

from __future__ import annotations

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


def is_masked(key: object) -> bool:
    """Any case; `-` and `_` are the same."""
    return isinstance(key, str) and key.lower().replace("-", "_") in MASKED_KEYS


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
