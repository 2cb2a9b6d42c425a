"""A validator: lets no e-mail address, card number or American social security number through.

config: {"allow": ["email"]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from router.extension import Rejection, Request, reject, validator

PATTERNS = {
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    "credit_card": re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)"),
    "ssn": re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)"),
}


@validator("pii_guard")
def pii_guard(request: Request) -> Rejection | None:
    """Names what was found, never the text that it was found in."""
    allowed = request.config.get("allow") or ()
    kinds = kinds_in(request.payload)
    first = next((name for name in PATTERNS if name in kinds and name not in allowed), None)
    return reject("pii_detected", {"field": "payload", "pattern": first}) if first is not None else None


def kinds_in(payload: object) -> set[str]:
    """The kinds of personal data in a payload's texts, by the names of `PATTERNS`."""
    return {name for text in texts(payload) for name, pattern in PATTERNS.items() if _holds(name, pattern, text)}


def texts(payload: object) -> Iterator[str]:
    """Every text in a payload, keys of objects too."""
    match payload:
        case str():
            yield payload
        case list():
            for part in payload:
                yield from texts(part)
        case dict():
            for name, part in payload.items():
                yield name
                yield from texts(part)


def is_meant(name: str, found: str) -> bool:
    """Whether what matches is what it looks like: long numbers are common, card numbers are not."""
    return name != "credit_card" or _has_check_digit(re.sub(r"\D", "", found))


def _has_check_digit(digits: str) -> bool:
    """Luhn's: every second digit from the right counts twice."""
    doubled = [int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _holds(name: str, pattern: re.Pattern[str], text: str) -> bool:
    return any(is_meant(name, match[0]) for match in pattern.finditer(text))
