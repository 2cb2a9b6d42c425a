"""What a function of an author is given, read and checked (`contracts.extension` has its shape),
and the values that it may return or raise.

Limits come before parsing; unknown fields are ignored; null is absent. What is wrong becomes
`RequestFailed` naming the field, never its value. Providers are asked otherwise: `provider_io`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NoReturn, Self

from msgspec import Struct

from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.extension import MAX_METADATA_BYTES, ExtensionMessage, InvalidExtensionMessage
from router.contracts.extension import read_request as read_extension_request
from router.contracts.field_readers import is_scoped
from router.contracts.raw_json import NULL, RawJson
from router.core.errors import Misconfigured, Poison
from router.core.ids import is_opaque
from router.core.masking import shorten

# -- The values that an author's function may return or raise.
#
# pre        a new payload | (payload, metadata) | Response | None: no change
# validator  None or True: ok | False | reject("reason", {...})
# post       metadata to add to the decision | (payload, metadata) | Response | None: nothing to add
# provider   text, or any JSON value | Output; one that streams yields text, Usage so far, and an Output as the last
#
# raise Refused("…")        this request can never succeed here: 4xx, not tried again
# raise RequestRefused      the same, 422; RateLimited 429, with the time after which to ask again;
#                           ProviderFailed 502 (`sdk.failures`)
# any other exception       5xx: tried again as often as the registry's `retry` says


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


# -- What a function of an author is given: a request, read and checked (`contracts.extension` has
# its shape).


# a message, its context, its config, and what names them
MAX_REQUEST_BYTES = MAX_PAYLOAD_BYTES + 3 * MAX_METADATA_BYTES
NO_HEADERS: Mapping[str, str] = {}


class Request(Struct, frozen=True, kw_only=True):
    """One request to a pre-processor, validator or post-processor.

    `metadata` is the routing context with `policy_id`; `config` is what the policy and the registry
    say to this extension. In tests: `Request.from_payload("text", config={...})`.
    """

    tenant_id: str
    trace_id: str = ""
    message: ExtensionMessage
    metadata: Mapping[str, Any] = NOTHING
    config: Mapping[str, Any] = NOTHING
    headers: Mapping[str, str] = NO_HEADERS

    @property
    def payload(self) -> Any:
        """The message's payload: any JSON value, or bytes that are not UTF-8. Integers are exact,
        other numbers floats.
        """
        payload = self.message.payload
        return payload.read() if isinstance(payload, RawJson) else payload

    @property
    def payload_bytes(self) -> bytes:
        """The payload's JSON as it was sent, to read numbers that no float holds; or the bytes that
        are not UTF-8.
        """
        payload = self.message.payload
        return payload if isinstance(payload, bytes) else (payload or NULL).data

    @property
    def message_type(self) -> str:
        return self.message.message_type or ""

    @property
    def message_id(self) -> str:
        return self.message.message_id or ""

    @property
    def decision(self) -> Mapping[str, Any]:
        """The decision, for a post-processor; empty for any other."""
        decision = self.metadata.get("decision")
        return decision if isinstance(decision, Mapping) else NOTHING

    @classmethod
    def from_payload(
        cls, payload: object, *, tenant_id: str = "acme", message_type: str = "chat", **rest: Any
    ) -> Self:
        """A request with this payload, to try a function out; `rest` are fields of a Request."""
        sent = payload if isinstance(payload, bytes) else RawJson.encode(payload)
        message = ExtensionMessage(
            payload=sent, message_type=message_type, message_id="m-1", metadata={}
        )
        return cls(tenant_id=tenant_id, message=message, **{"trace_id": "t-1", **rest})


def read_request(data: bytes, headers: Mapping[str, str]) -> Request:
    """Read the request. Raises RequestFailed: 413 when it is too large, else 400."""
    check_size(data)
    try:
        asked = read_extension_request(data)
    except InvalidExtensionMessage as exc:
        raise RequestFailed(400, "invalid_request", f"Invalid request: {exc}") from None
    return Request(
        tenant_id=tenant(asked.tenant_id),
        trace_id=trace(asked.trace_id),
        message=asked.message,
        metadata=asked.metadata,
        config=asked.config,
        headers=headers,
    )


def check_size(data: bytes) -> None:
    if len(data) > MAX_REQUEST_BYTES:
        raise RequestFailed(
            413,
            "payload_too_large",
            f"The request of {len(data)} bytes is larger than {MAX_REQUEST_BYTES}",
        )


def tenant(value: object) -> str:
    if type(value) is not str or not is_scoped(value):
        refuse("tenant_id", "1..128 of A-Z a-z 0-9 _ . : - and not start with . or _")
    return value


def trace(value: object) -> str:
    """An absent trace costs only the caller; a malformed one would get into logs."""
    if value is None or value == "":
        return ""
    if type(value) is not str or not is_opaque(value):
        refuse("trace_id", "1..128 printable ASCII characters without spaces")
    return value


def refuse(place: str, legal: str) -> NoReturn:
    raise RequestFailed(400, "invalid_request", f"Invalid field: {place} must be {legal}", place)
