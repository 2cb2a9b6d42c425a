"""What a provider told of one attempt: its model, its tokens, its cost
(docs/reference/prices.md#told).

An answer's metadata and those of any chunk are read by the same rules. Whatever is not legal is
absent: then the router estimates.

    model               1..128 printable characters of ASCII without a space
    prompt_tokens       a whole number of at most nine digits; `input_tokens` is the same
    completion_tokens   as prompt_tokens; `output_tokens` is the same
    cached_tokens       the part of prompt_tokens that the provider had in its cache
    usage               an object of these; a name of its own in the metadata goes before it
    cost                a finite number from 0 to 1e15, in the currency of the policies
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import msgspec
from msgspec import Struct

from router.contracts.codec import UNREADABLE_ERRORS
from router.contracts.money import round_to_nanos
from router.core import ids

MAX_COST = Decimal(10**15)  # what the settings allow at most
_MAX_DIGITS = 9
MAX_TOKENS = 10**_MAX_DIGITS - 1
_MAX_COST_TEXT = 64
_MAX_USAGE_TEXT = 4096  # characters of a `usage` that is JSON inside metadata
_NAMES = ("prompt_tokens", "completion_tokens", "cached_tokens", "model", "cost")
_SAME = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
_DETAILS = "prompt_tokens_details"


class ToldUsage(Struct, frozen=True, kw_only=True):
    """`cost`: in 1e-9 of the currency. None: not told, or not legal."""

    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost: int | None = None


NOTHING_TOLD = ToldUsage()


def read_told_usage(metadata: Mapping[str, object]) -> ToldUsage:
    """Read what an answer's metadata or a chunk's tell. Never raises."""
    told = {**find_told(_read_usage_text(metadata.get("usage"))), **find_told(metadata)}
    input_tokens, cached = told.get("prompt_tokens"), told.get("cached_tokens")
    if not told:
        return NOTHING_TOLD
    return ToldUsage(
        model=told.get("model"),
        input_tokens=int(input_tokens) if input_tokens is not None else None,
        cached_tokens=_read_cached(cached, input_tokens),
        output_tokens=int(told["completion_tokens"]) if "completion_tokens" in told else None,
        cost=round_to_nanos(Decimal(told["cost"])) if "cost" in told else None,
    )


def find_told(fields: Mapping[str, object]) -> dict[str, str]:
    """Return what is legal of these fields, by its name in metadata and as metadata's text."""
    names = [name for name in (*_SAME, *_NAMES) if name in fields]
    if not names and _DETAILS not in fields:
        return {}
    details = fields.get(_DETAILS)
    told = _find_details(details) if isinstance(details, Mapping) else {}
    for name in names:
        value = _READERS[_SAME.get(name, name)](fields[name])
        if value is not None:
            told[_SAME.get(name, name)] = value
    return told


def _find_details(details: Mapping[str, object]) -> dict[str, str]:
    cached = _read_count(details.get("cached_tokens"))
    return {"cached_tokens": cached} if cached is not None else {}


def _read_usage_text(value: object) -> Mapping[str, object]:
    """Metadata are text: an object in them is its JSON."""
    if not isinstance(value, str) or len(value) > _MAX_USAGE_TEXT:
        return {}
    try:
        usage = msgspec.json.decode(value)
    except UNREADABLE_ERRORS:
        return {}
    return usage if isinstance(usage, dict) else {}


def _read_cached(cached: str | None, input_tokens: str | None) -> int | None:
    """Without a told input nothing says what the cached tokens are a part of."""
    if cached is None or input_tokens is None:
        return None
    return int(cached) if int(cached) <= int(input_tokens) else None


def _read_count(value: object) -> str | None:
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    return text if len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() else None


def _read_model(value: object) -> str | None:
    return value if isinstance(value, str) and ids.is_opaque(value) else None


def _read_cost(value: object) -> str | None:
    text = value if isinstance(value, str) else repr(value) if type(value) in (int, float) else ""
    try:
        cost = Decimal(text) if 0 < len(text) <= _MAX_COST_TEXT else None
    except InvalidOperation:
        return None
    return text if cost is not None and cost.is_finite() and 0 <= cost <= MAX_COST else None


_READERS = {
    "prompt_tokens": _read_count,
    "completion_tokens": _read_count,
    "cached_tokens": _read_count,
    "model": _read_model,
    "cost": _read_cost,
}
