"""Whose fault it was that work failed: what a worker's function, and an extension's, may raise.

    ProviderFailed     the provider: a breaker counts it, a strategy leaves the provider out;
                       another attempt may succeed
    RequestRefused     the request: any provider would refuse it, so nothing is counted and nothing
                       tried again
    RateLimited        the provider takes no more from this tenant for a while: it is left alone,
                       and not asked again

`make_failure` makes one of them of an HTTP status. The classes are those of
docs/reference/contracts.md#failure-classes.
"""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime

from router.contracts.failure_class import RATE_LIMIT, REQUEST, classify_number
from router.contracts.result import MAX_LATENCY_MS
from router.core.clock import wall
from router.core.errors import RouterError, Transient

_MOST_CHARACTERS = 64  # of a date in HTTP's form, and some more


class ProviderFailed(Transient):
    """The provider failed. Worth another attempt, as every `Transient` is."""

    code = "PROVIDER_FAILED"


class RequestRefused(RouterError):
    """Any provider would refuse this request: it has a result, unlike `Poison`, and no further
    attempt.
    """

    code = "REQUEST_REFUSED"


class RateLimited(RouterError):
    """The provider limits this tenant. `retry_after`: seconds until it may be asked again, None
    where it did not say.
    """

    code = "RATE_LIMITED"

    def __init__(
        self, message: str = "the provider limits this tenant", *, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_ms = _to_milliseconds(retry_after)


def make_failure(status: int, message: str = "", *, retry_after: str | None = None) -> RouterError:
    """The exception for an HTTP status of a provider, to be raised. `retry_after`: the header
    Retry-After, as it came.

    It is seconds or a date (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after); for anything
    else the setting `providers.rate_limited_ms` holds. A date is read by this host's clock.
    """
    text = message or f"the provider answered {status}"
    which = classify_number(status)
    if which is RATE_LIMIT:
        return RateLimited(text, retry_after=_read_seconds(retry_after))
    return RequestRefused(text) if which is REQUEST else ProviderFailed(text)


def _read_seconds(header: str | None) -> float | None:
    if header is None or len(header) > _MOST_CHARACTERS:
        return None
    try:
        return float(header)
    except ValueError:
        return _read_date(header)


def _read_date(header: str) -> float | None:
    """Seconds until then; 0 where it is over."""
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, until.timestamp() - wall()) if until.tzinfo is not None else None


def _to_milliseconds(seconds: float | None) -> int | None:
    """None for what is no time; at least 1, because 0 is how protobuf says absent."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    return min(max(1, math.ceil(seconds * 1000)), MAX_LATENCY_MS)
