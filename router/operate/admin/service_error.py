"""The error answers of the services: a code, the cause, and details that tell what to correct
(docs/reference/operators.md#admin-errors).
"""

from __future__ import annotations

from collections.abc import Mapping

from router.core.errors import RouterError, StorageFull, StorageRefused

INVALID_REQUEST = "invalid_request"
UNAUTHORIZED = "unauthorized"
POLICY_NOT_FOUND = "policy_not_found"
EXTENSION_NOT_FOUND = "extension_not_found"
DECISION_NOT_FOUND = "decision_not_found"
CONFLICT = "conflict"
OVERLOADED = "overloaded"
CANNOT_BE_STORED = "cannot_be_stored"
INTERNAL = "internal"

# The number that the service protocol sends as a header, for each code.
HTTP_STATUSES: Mapping[str, int] = {
    INVALID_REQUEST: 400,
    UNAUTHORIZED: 401,
    POLICY_NOT_FOUND: 404,
    EXTENSION_NOT_FOUND: 404,
    DECISION_NOT_FOUND: 404,
    CONFLICT: 409,
    OVERLOADED: 503,
}


class ServiceError(RouterError):
    """`details` are JSON values. Neither they nor the message contain a secret or a payload."""

    def __init__(
        self, code: str, message: str, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    @property
    def status(self) -> int:
        return HTTP_STATUSES.get(self.code, 500)

    def to_json(self) -> dict[str, object]:
        """The answer: `{ok: false, error: {code, message, details?}}`."""
        error: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.details:
            error["details"] = dict(self.details)
        return {"ok": False, "error": error}


def invalid_field(field: str, legal: str) -> ServiceError:
    """A field of the request is not legal; `legal` describes what is."""
    return ServiceError(
        INVALID_REQUEST, f"Invalid field: {field} must be {legal}", {"field": field}
    )


def explain_storage(exc: StorageRefused | StorageFull) -> ServiceError:
    """What a bucket refuses: until an operator mends it, or until it has room."""
    if isinstance(exc, StorageFull):
        return ServiceError(OVERLOADED, str(exc), {"cause": exc.code})
    return ServiceError(CANNOT_BE_STORED, str(exc), {"cause": "bucket_refuses"})


def missing_field(field: str) -> ServiceError:
    return ServiceError(INVALID_REQUEST, f"Missing required field: {field}", {"field": field})
