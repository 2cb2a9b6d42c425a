"""A service that says no: the code, what is the matter, and what to mend (docs/operators.md#admin-errors)."""

from __future__ import annotations

from collections.abc import Mapping

from router.errors import RouterError

INVALID_REQUEST = "invalid_request"
UNAUTHORIZED = "unauthorized"
POLICY_NOT_FOUND = "policy_not_found"
EXTENSION_NOT_FOUND = "extension_not_found"
DECISION_NOT_FOUND = "decision_not_found"
CONFLICT = "conflict"
OVERLOADED = "overloaded"
INTERNAL = "internal"

# What the service protocol says beside the body: its number for each code.
STATUSES: Mapping[str, int] = {
    INVALID_REQUEST: 400,
    UNAUTHORIZED: 401,
    POLICY_NOT_FOUND: 404,
    EXTENSION_NOT_FOUND: 404,
    DECISION_NOT_FOUND: 404,
    CONFLICT: 409,
    OVERLOADED: 503,
}


class Declined(RouterError):
    """`details` are JSON values; none of them, and no message, repeats a secret or a payload."""

    def __init__(self, code: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    @property
    def status(self) -> int:
        return STATUSES.get(self.code, 500)

    def as_error(self) -> dict[str, object]:
        """The answer: `{ok: false, error: {code, message, details?}}`."""
        error: dict[str, object] = {"code": self.code, "message": str(self)}
        if self.details:
            error["details"] = dict(self.details)
        return {"ok": False, "error": error}


def invalid(field: str, legal: str) -> Declined:
    """A field of the request is not what it must be; `legal` says what would have been right."""
    return Declined(INVALID_REQUEST, f"Invalid field: {field} must be {legal}", {"field": field})


def missing(field: str) -> Declined:
    return Declined(INVALID_REQUEST, f"Missing required field: {field}", {"field": field})
