"""Classify a worker's outcome for its provider's breaker: success, failure or neutral (docs/extensions.md#provider-breaker).

The status and the code decide, never the text of a message. A cancellation, a refused request, a rate limit and an error
without a code are not the provider's fault, and do not prove that it is healthy.
"""

from __future__ import annotations

from enum import Enum, auto

FAILURES = frozenset({"TIMEOUT", "CONNECTION_ERROR", "PROVIDER_UNAVAILABLE", "5XX", "HTTP_5XX", "SERVER_ERROR"})


class ProviderOutcome(Enum):
    SUCCESS = auto()
    FAILURE = auto()
    NEUTRAL = auto()


def classify_outcome(status: str, error_code: str | None) -> ProviderOutcome:
    """`status` as in a result: success | error | timeout | cancelled."""
    if status == "success":
        return ProviderOutcome.SUCCESS
    if status == "timeout" or (status == "error" and error_code is not None and _is_failure(error_code)):
        return ProviderOutcome.FAILURE
    return ProviderOutcome.NEUTRAL


def _is_failure(code: str) -> bool:
    code = code.strip().upper()
    if code in FAILURES:
        return True
    number = code.removeprefix("HTTP_")
    return len(number) == 3 and number.isascii() and number.isdigit() and number.startswith("5")
