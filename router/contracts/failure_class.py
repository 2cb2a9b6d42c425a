"""Whose fault an outcome was: one table for breakers, strategies, learned figures, canaries and
invocations.

    success                     None: it is no failure
    timeout                     provider
    cancelled                   cancelled
    error, by its code alone    request | rate_limit | cancelled | provider

A code is a word, an HTTP number or a code of the worker table
(docs/reference/contracts.md#failure-classes). An error without a code, or with a code that this
table does not know, is the provider's: what fails must not be preferred because nothing is said of
it. The text of a message never counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

# statuses of results
SUCCESS, ERROR, TIMEOUT, CANCELLED_STATUS = "success", "error", "timeout", "cancelled"


class FailureClass(Enum):
    """Whose fault it was; the value is the word that answers, labels and pages use."""

    REQUEST = "request"  # any provider would refuse it
    PROVIDER = "provider"
    RATE_LIMIT = "rate_limit"  # of this tenant at this provider; it passes
    CANCELLED = "cancelled"  # stopped, or never begun: it says nothing of the provider


# Bound once: breakers and figures ask for each result.
REQUEST, PROVIDER = FailureClass.REQUEST, FailureClass.PROVIDER
RATE_LIMIT, CANCELLED = FailureClass.RATE_LIMIT, FailureClass.CANCELLED

# A worker's own codes as `router.sdk.step` has them, and those of its exceptions.
REQUEST_REFUSED, RATE_LIMITED = "REQUEST_REFUSED", "RATE_LIMITED"
PROVIDER_FAILED, NOT_ASKED = "PROVIDER_FAILED", "NOT_ASKED"

REQUEST_NUMBERS = frozenset({400, 405, 406, 409, 411, 413, 414, 415, 416, 417, 422, 431, 451})
NUMBERS: Mapping[str, FailureClass] = {
    **{str(number): REQUEST for number in REQUEST_NUMBERS},
    "429": RATE_LIMIT,
    "499": CANCELLED,
    "1001": REQUEST,  # what came as an assignment is none
    "3001": REQUEST,  # the handler says that it can never succeed
}
WORDS: Mapping[str, FailureClass] = {
    **dict.fromkeys(
        (
            "4XX",
            "BAD_REQUEST",
            "CONTENT_FILTER",
            "CONTENT_FILTERED",
            "CONTENT_POLICY_VIOLATION",
            "CONTEXT_LENGTH_EXCEEDED",
            "INVALID_ARGUMENT",
            "INVALID_PROMPT",
            "INVALID_REQUEST",
            "INVALID_REQUEST_ERROR",
            "PAYLOAD_TOO_LARGE",
            "PROMPT_TOO_LONG",
            REQUEST_REFUSED,
            "REQUEST_TOO_LARGE",
            "STRING_ABOVE_MAX_LENGTH",
            "UNPROCESSABLE_ENTITY",
            "UNSUPPORTED_MEDIA_TYPE",
        ),
        REQUEST,
    ),
    **dict.fromkeys(
        (
            "INSUFFICIENT_QUOTA",
            "RESOURCE_EXHAUSTED",
            "SLOW_DOWN",
            "THROTTLED",
            "THROTTLING",
            "THROTTLING_EXCEPTION",
            "TOO_MANY_REQUESTS",
        ),
        RATE_LIMIT,
    ),
    **dict.fromkeys(
        ("ABORTED", "CANCELED", "CANCELLED", "CLIENT_CLOSED_REQUEST", NOT_ASKED), CANCELLED
    ),
}
FAMILIES: Mapping[str, FailureClass] = {  # words that begin so
    "VALIDATION_": REQUEST,
    "RATE_LIMIT": RATE_LIMIT,
    "QUOTA": RATE_LIMIT,
}


def classify_outcome(status: str, error_code: str | None) -> FailureClass | None:
    """`status` as in a result: success | error | timeout | cancelled. None: a success, whatever code it carries."""
    if status == SUCCESS:
        return None
    if status == CANCELLED_STATUS:
        return CANCELLED
    return PROVIDER if status == TIMEOUT or error_code is None else classify_code(error_code)


def classify_code(code: str) -> FailureClass:
    """The class of an error's code, without case; dashes and spaces read as underscores."""
    code = code.strip().upper().replace("-", "_").replace(" ", "_")
    failure = NUMBERS.get(code.removeprefix("HTTP_")) or WORDS.get(code)
    if failure is not None:
        return failure
    return next((which for begin, which in FAMILIES.items() if code.startswith(begin)), PROVIDER)


def classify_number(number: int) -> FailureClass:
    """The class of an HTTP status, as services and providers send it."""
    return NUMBERS.get(str(number), PROVIDER)
