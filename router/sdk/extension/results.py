"""The values that an author's function may return or raise.

pre         a new payload | (payload, metadata) | Response | None: no change
validator   None or True: ok | False | reject("reason", {...})
post        metadata to add to the decision | (payload, metadata) | Response | None: nothing to add
provider    text, or any JSON value | Output; one that streams yields text, Usage so far, and an Output as the last

raise Refused("…")        this request can never succeed here: 4xx, not tried again
raise RequestRefused      the same, 422; RateLimited 429, with the time after which to ask again;
                          ProviderFailed 502 (`sdk.failures`)
any other exception       5xx: tried again as often as the registry's `retry` says
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from router.core.errors import Misconfigured, Poison
from router.core.masking import shorten

NOTHING: Mapping[str, object] = MappingProxyType({})


class Unchanged(Enum):
    """A payload that does not change; None would be JSON's null."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


class Response(Struct, frozen=True, kw_only=True):
    """Everything that a pre- or post-processor can return.

    `metadata` is merged into the request's context (pre) or the decision's metadata (post);
    `message_metadata` into that of the message, for its later readers. The router ignores a
    post-processor's payload.
    """

    payload: object = UNCHANGED
    metadata: Mapping[str, object] = NOTHING
    message_metadata: Mapping[str, object] = NOTHING


class Rejection(Struct, frozen=True):
    """A validator's refusal. `reason` is a short code, `details` an object; the caller gets both."""

    reason: str
    details: Mapping[str, object] = NOTHING


def reject(reason: str, details: Mapping[str, object] = NOTHING) -> Rejection:
    """`return reject("pii_detected", {"pattern": "credit_card"})`."""
    return Rejection(reason, details)


class Refused(Poison):
    """Raised by an author: this request can never succeed. Its text goes to the router; `status` is
    400..499.
    """

    code = "refused"

    def __init__(self, message: str, *, status: int = 422) -> None:
        if not 400 <= status <= 499:
            raise Misconfigured(
                "status", "should be 400..499; another exception is what may be tried again"
            )
        super().__init__(message)
        self.status = status


class RequestFailed(Exception):
    """Why a request gets an error instead of an answer: `status` as in HTTP, `code` for programs,
    `field` where there is one.

    `fault`: request | service | rate_limit | answer, where the number alone would say something else.

    Its text and code are cut to 4096 characters, and can be sent: an author's error may quote a
    whole payload.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        *,
        fault: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(_sendable(message))
        self.status = status
        self.code = _sendable(code)
        self.field = field
        self.fault = fault
        self.retry_after_ms = retry_after_ms


def _sendable(text: object) -> str:
    """The author's words and code may be anything: as text that is cut, and that JSON and a header
    can hold.
    """
    return shorten(str(text)).encode("utf-8", "replace").decode()
