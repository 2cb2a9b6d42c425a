"""The fields of a worker's message, one reader each: a value of the right kind, None where it is
absent, or Malformed. `field_kinds` has those that a header may say, too.

null is absent, and so is an empty string: it is missing for ids and types
(docs/reference/contracts.md#required-fields), and protobuf cannot tell it from absent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from sys import float_info
from typing import Any

from router.contracts.malformed import Malformed, invalid_correlation, invalid_field, missing_field
from router.contracts.raw_json import NUMBERS, RawJson, has_long_integer
from router.core import ids
from router.core.ids import is_opaque
from router.core.masking import MAX_TEXT, shorten

Object = Mapping[str, Any]

OPAQUE = "1..128 printable ASCII characters without spaces"
SCOPED = "1..128 of A-Z a-z 0-9 _ . : - and not start with . or _"
MAX_INT64 = 2**63 - 1
MAX_FLOAT = float_info.max

is_scoped = ids.ScopedNames().__getitem__


def read_id(body: Object, name: str) -> str | None:
    """An id by which messages are tied together."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) is str and is_opaque(value):
        return value
    if value == "":
        return None
    raise invalid_correlation(name, name, OPAQUE)


def read_text(
    body: Object, name: str, place: str | None = None, *, most: int = ids.MAX_NAME
) -> str | None:
    """A name that is no id: any text, at most so many characters."""
    value = body.get(name)
    if value is None or value == "":
        return None
    if type(value) is not str or len(value) > most:
        raise invalid_field(name, place or name, f"text of 1..{most} characters")
    return value


def read_excerpt(body: Object, name: str) -> str | None:
    """Text for people. Longer text is cut, because it is no reason to refuse a message."""
    value = body.get(name)
    if type(value) is not str and value is not None:
        raise invalid_field(name, name, "text")
    return shorten(value, MAX_TEXT) if value else None


def read_choice(body: Object, name: str, legal: Collection[str]) -> str:
    """Required: one of these words."""
    value = body.get(name)
    if type(value) is str and value in legal:
        return value
    if value is None or value == "":
        raise missing_field(name, name)
    raise invalid_field(name, name, "one of " + ", ".join(sorted(legal)))


def read_whole(body: Object, name: str, most: int = MAX_INT64) -> int | None:
    """A number from 0 to `most`, rounded half up."""
    value = body.get(name)
    if type(value) is int and 0 <= value <= most:
        return value
    if value is None:
        return None
    # NaN compares with nothing
    if type(value) is not float or not 0 <= value <= most or value >= MAX_INT64:
        raise _refuse_number(name, most)
    floor = int(value)
    return floor + (value - floor >= 0.5)  # floor(value + 0.5) would round 0.49999999999999994 up


def read_moment(body: Object, name: str) -> int | None:
    """Milliseconds since the epoch, or ISO 8601, UTC where it names no zone."""
    value = body.get(name)
    if type(value) is not str:
        return read_whole(body, name)
    try:
        told = datetime.fromisoformat(value)
        return round((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as exc:
        raise invalid_field(name, name, "milliseconds or ISO 8601") from exc


def read_amount(body: Object, name: str, most: float = MAX_FLOAT) -> float | None:
    """A finite number from 0 to `most`; never -0.0."""
    value = body.get(name)
    if value is None:
        return None
    if type(value) not in (float, int) or not 0 <= value <= most:
        raise _refuse_number(name, most)
    return float(value) + 0.0


def read_numbers(body: Object, name: str) -> Any:
    """Any value whose numbers can be read and written again."""
    value = body.get(name)
    if type(value) is RawJson or has_long_integer(value):
        raise invalid_field(name, name, NUMBERS)
    return value


def _refuse_number(name: str, most: float) -> Malformed:
    legal = (
        "a finite number, 0 or more"
        if most in (MAX_INT64, MAX_FLOAT)
        else f"a number from 0 to {most:.15g}"
    )
    return invalid_field(name, name, legal)
