"""A validator: it rejects e-mail addresses, card numbers and American social security numbers.

config: {"allow": ["email"]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from router.sdk.extension import Rejection, Request, reject, validator

PATTERNS = {
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    "credit_card": re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)"),
    "ssn": re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)"),
}


@validator("pii_guard")
def pii_guard(request: Request) -> Rejection | None:
    """Name the kind that was found, never the text."""
    allowed = request.config.get("allow") or ()
    kinds = find_kinds(request.payload)
    first = next((name for name in PATTERNS if name in kinds and name not in allowed), None)
    return (
        reject("pii_detected", {"field": "payload", "pattern": first})
        if first is not None
        else None
    )


def find_kinds(payload: object) -> set[str]:
    """Return the kinds of personal data in a payload's texts, by the names of `PATTERNS`."""
    return {
        name
        for text in iterate_texts(payload)
        for name, pattern in PATTERNS.items()
        if _has_match(name, pattern, text)
    }


def iterate_texts(payload: object) -> Iterator[str]:
    """Yield every text in a payload, also keys of objects."""
    match payload:
        case str():
            yield payload
        case list():
            for part in payload:
                yield from iterate_texts(part)
        case dict():
            for name, part in payload.items():
                yield name
                yield from iterate_texts(part)


def is_real_match(name: str, text: str) -> bool:
    """Whether a match really is of its kind: long numbers are common, card numbers are not."""
    return name != "credit_card" or _has_check_digit(re.sub(r"\D", "", text))


def _has_check_digit(digits: str) -> bool:
    """Luhn's check: every second digit from the right counts twice."""
    doubled = [int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _has_match(name: str, pattern: re.Pattern[str], text: str) -> bool:
    return any(is_real_match(name, match[0]) for match in pattern.finditer(text))
