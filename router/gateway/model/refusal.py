"""Why a request has no answer, as HTTP says it (docs/reference/gateway.md#errors).

    a code of the router ──> status, OpenAI's type, seconds after which to ask again
    a failed invocation  ──> the same, and whether another provider may be asked

OpenAI's clients choose their error class by the status, and try again after 408, 409, 429 and from
500 on; so a refusal that another attempt cannot change has a status below 500 that is none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import orjson
from msgspec import Struct

from router.contracts import decision
from router.contracts.decision import Refusal

# The gateway's own codes; the others are the router's.
INVALID_API_KEY = "invalid_api_key"
FORBIDDEN = "forbidden"
NOT_FOUND = "not_found"
METHOD_NOT_ALLOWED = "method_not_allowed"
MODEL_NOT_FOUND = "model_not_found"
REQUEST_TIMEOUT = "request_timeout"
TOO_LARGE = "request_too_large"
TOO_MANY_GUESSES = "too_many_wrong_keys"
NO_ROUTER = "router_unavailable"
PROVIDER_FAILED = "provider_failed"
PROVIDER_TIMEOUT = "provider_timeout"
PROVIDER_RATE_LIMITED = "provider_rate_limited"
PROVIDER_REFUSED = "provider_refused"
STREAM_INTERRUPTED = "stream_interrupted"
ANSWER_NOT_KEPT = "answer_not_kept"
ANSWERS_UNAVAILABLE = "answers_unavailable"

_BAD, _AUTH, _DENIED = "invalid_request_error", "authentication_error", "permission_error"
_LIMIT, _QUOTA, _SERVER = "rate_limit_error", "insufficient_quota", "server_error"

STATUSES: Mapping[str, tuple[int, str]] = {
    decision.INVALID_REQUEST: (400, _BAD),
    "validator_blocked": (400, _BAD),
    PROVIDER_REFUSED: (400, _BAD),
    INVALID_API_KEY: (401, _AUTH),
    decision.BUDGET_EXCEEDED: (402, _QUOTA),
    FORBIDDEN: (403, _DENIED),
    decision.UNAUTHORIZED: (403, _DENIED),
    NOT_FOUND: (404, _BAD),
    "decision_not_found": (404, _BAD),
    MODEL_NOT_FOUND: (404, _BAD),
    decision.POLICY_NOT_FOUND: (404, _BAD),
    METHOD_NOT_ALLOWED: (405, _BAD),
    REQUEST_TIMEOUT: (408, _BAD),
    ANSWER_NOT_KEPT: (410, _BAD),
    TOO_LARGE: (413, _BAD),
    decision.RATE_LIMIT_EXCEEDED: (429, _LIMIT),
    decision.OVERLOADED: (429, _LIMIT),
    TOO_MANY_GUESSES: (429, _LIMIT),
    PROVIDER_RATE_LIMITED: (429, _LIMIT),
    decision.INTERNAL: (500, _SERVER),
    decision.CANNOT_BE_STORED: (500, _SERVER),
    PROVIDER_FAILED: (502, _SERVER),
    "pre_processor_failed": (502, _SERVER),
    "post_processor_failed": (502, _SERVER),
    STREAM_INTERRUPTED: (502, _SERVER),
    decision.DECISION_FAILED: (503, _SERVER),
    NO_ROUTER: (503, _SERVER),
    ANSWERS_UNAVAILABLE: (503, _SERVER),
    decision.DEADLINE_EXCEEDED: (504, _SERVER),
    decision.EXPIRED: (504, _SERVER),
    PROVIDER_TIMEOUT: (504, _SERVER),
}
MAX_MESSAGE = 1_000  # characters


class GatewayRefusal(Exception):
    """An answer that is no success. `param`: the field of the request that is at fault."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:MAX_MESSAGE]
        self.param = param
        self.retry_after_ms = retry_after_ms

    @property
    def status(self) -> int:
        return STATUSES.get(self.code, (500, _SERVER))[0]

    @property
    def retry_after_s(self) -> int | None:
        """As the header `Retry-After` has it, rounded up: earlier would be in vain."""
        return None if self.retry_after_ms is None else max(1, ceil(self.retry_after_ms / 1000))

    @property
    def body(self) -> bytes:
        """OpenAI's shape of an error."""
        error = {
            "message": self.message,
            "type": STATUSES.get(self.code, (500, _SERVER))[1],
            "param": self.param,
            "code": self.code,
        }
        return orjson.dumps({"error": error})


def refuse_decision(refusal: Refusal) -> GatewayRefusal:
    """What the router's refusal is to an HTTP client."""
    details = refusal.details or {}
    after = details.get("retry_after_ms")
    code = refusal.code
    if code == decision.DECISION_FAILED and _is_limited(details.get("providers")):
        code = PROVIDER_RATE_LIMITED
    field = details.get("field")
    return GatewayRefusal(
        code,
        refusal.message,
        param=field if isinstance(field, str) else None,
        retry_after_ms=after if isinstance(after, int) and after >= 0 else None,
    )


def _is_limited(providers: object) -> bool:
    """Whether every provider that could take the request limits the tenant."""
    if not isinstance(providers, Mapping):
        return False
    passing = [why for why in providers.values() if why in ("rate_limited", "circuit_breaker_open")]
    return bool(passing) and all(why == "rate_limited" for why in passing)


# -- A failed invocation: what the client hears, and whether the next candidate may be asked.


class FailedAttempt(Struct, frozen=True):
    """`status`: what the next decision is told, as a policy's fallback rules name it; None: no
    other provider may be asked. `is_free`: the provider had no work of it, so another attempt is no
    more load than one.
    """

    refusal: GatewayRefusal
    status: str | None
    is_free: bool = False


def judge_failure(
    code: str | None, message: str | None, metadata: Mapping[str, str]
) -> FailedAttempt:
    """Sort a failure by whose fault it is. A refused request is refused by any provider, and what
    the router itself refuses is not the provider's.
    """
    text, fault = message or "The provider failed", metadata.get("fault")
    after = _read_whole(metadata.get("retry_after_ms"))
    match code, fault:
        case "extension_error", "request":
            return FailedAttempt(GatewayRefusal(PROVIDER_REFUSED, text), None)
        case "extension_error", "rate_limit":
            refusal = GatewayRefusal(PROVIDER_RATE_LIMITED, text, retry_after_ms=after)
            return FailedAttempt(refusal, "429", is_free=True)
        case "extension_timeout", _:
            return FailedAttempt(GatewayRefusal(PROVIDER_TIMEOUT, text), "timeout")
        case "extension_error", _:
            return FailedAttempt(GatewayRefusal(PROVIDER_FAILED, text), "503")
        case (("extension_unavailable" | "extension_not_found"), _):
            return FailedAttempt(GatewayRefusal(PROVIDER_FAILED, text), "503", is_free=True)
        case (("stream_overrun" | "stream_broken"), _):
            return FailedAttempt(GatewayRefusal(STREAM_INTERRUPTED, text), None)
        case _:
            return FailedAttempt(
                GatewayRefusal(code or decision.INTERNAL, text, retry_after_ms=after), None
            )


def _read_whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


# -- Further attempts: a share of a tenant's requests, so that a provider that fails for all does
# not get each request several times.

MAX_KEPT = 10.0  # attempts that a tenant may save up
BEGIN_WITH = 3.0  # of a tenant that has just begun


class RetryBudget(Struct):
    """Of one tenant, in one gateway. `left`: further attempts."""

    percent: float
    left: float = BEGIN_WITH

    def on_request(self) -> None:
        self.left = min(MAX_KEPT, self.left + self.percent / 100)

    def take(self) -> bool:
        """Whether one more attempt may be made."""
        if self.left < 1 or self.percent <= 0:
            return False
        self.left -= 1
        return True
