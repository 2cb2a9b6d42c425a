"""What one service of operators is made of: its subject and its answer, the fields of its request,
and its error answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from router.contracts.raw_json import DIGITS, RawJson, has_endless_number, has_long_integer
from router.core import ids
from router.core.errors import RouterError, StorageFull, StorageRefused
from router.core.masking import shorten

# -- The error answers of the services: a code, the cause, and details that tell what to correct
# (docs/reference/operators.md#admin-errors).


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


# -- Reads the fields of an admin request: a method returns a legal value, or raises ServiceError
# with the field.
#
# null counts as absent, and so does an empty id (docs/reference/contracts.md#absent).


# policies of all tenants: no tenant can have this name, operators can write under it
SHARED = "_shared"
SCOPED = "1..128 of A-Z a-z 0-9 _ . : - and not start with . or _"
OPAQUE = "1..128 printable ASCII characters without spaces"
TOKEN = "1..64 of A-Z a-z 0-9 _ -"  # noqa: S105 - a token of a subject
NUMBERS_HELD = "JSON whose integers have at most 64 bits, and whose other numbers fit a double"
MAX_INT64 = 2**63 - 1
_PAYLOAD = "payload"


class RequestFields:
    """The JSON object of one request."""

    def __init__(self, body: Mapping[str, object]) -> None:
        self._body = body

    def check_numbers(self) -> None:
        """Raises ServiceError for a field whose numbers cannot be held; a payload may have any
        (docs/reference/contracts.md#bounds).
        """
        for name, value in self._body.items():
            if name != _PAYLOAD and (type(value) is RawJson or has_long_integer(value)):
                raise invalid_field(shorten(name), NUMBERS_HELD)

    def exclude(self, *names: str) -> dict[str, object]:
        """The object without these fields: for a service whose request is the document itself."""
        body = {name: value for name, value in self._body.items() if name not in names}
        return {
            name: value.read() if type(value) is RawJson else value for name, value in body.items()
        }

    def payload(self) -> RawJson | None:
        """The payload as it was written; None when it is absent."""
        value = self._body.get(_PAYLOAD)
        payload = value if value is None or type(value) is RawJson else RawJson.encode(value)
        if payload is not None and has_endless_number(payload.data):
            raise invalid_field(_PAYLOAD, DIGITS)
        return payload

    def tenant_id(self) -> str:
        return _require("tenant_id", self.optional_tenant_id())

    def optional_tenant_id(self) -> str | None:
        return self._text("tenant_id", ids.is_scoped, SCOPED)

    def policy_tenant(self) -> str:
        """A tenant, or `_shared`: the owner of a policy."""
        return _require("tenant_id", self.optional_policy_tenant())

    def optional_policy_tenant(self) -> str | None:
        return self._text(
            "tenant_id",
            lambda text: text == SHARED or ids.is_scoped(text),
            f"{SCOPED}, or {SHARED}",
        )

    def policy_id(self) -> str:
        return _require("policy_id", self._text("policy_id", ids.is_scoped, SCOPED))

    def extension_id(self) -> str:
        return _require("id", self._text("id", ids.is_token, TOKEN))

    def opaque(self, name: str) -> str | None:
        return self._text(name, ids.is_opaque, OPAQUE)

    def text(self, name: str) -> str | None:
        return self._text(name, lambda text: len(text) <= 256, "text of at most 256 characters")

    def flag(self, name: str) -> bool:
        """False when absent."""
        value = self._body.get(name)
        if value is not None and type(value) is not bool:
            raise invalid_field(name, "true or false")
        return bool(value)

    def integer(self, name: str, least: int = 1) -> int | None:
        """An integer, `least` or more."""
        value = self._body.get(name)
        if value is None or (type(value) is int and least <= value <= MAX_INT64):
            return value
        raise invalid_field(name, f"a whole number, {least} or more")

    def replaced_version(self) -> int | None:
        """The version that the writer replaces; 0: none exists."""
        return self.integer("replaces", 0)

    def json_object(self, name: str) -> Mapping[str, object]:
        value = self._body.get(name)
        if value is None:
            raise missing_field(name)
        if type(value) is not dict:
            raise invalid_field(name, "an object")
        return value

    def value(self, name: str) -> object:
        """Any JSON value; None when it is absent."""
        return self._body.get(name)

    def _text(self, name: str, is_legal: Callable[[str], bool], legal: str) -> str | None:
        value = self._body.get(name)
        if value is None or value == "":
            return None
        if type(value) is not str or not is_legal(value):
            raise invalid_field(name, legal)
        return value


def _require(name: str, value: str | None) -> str:
    if value is None:
        raise missing_field(name)
    return value


# -- One service as data: its subject, its description, and the function that answers.


Answer = Mapping[str, object]  # JSON values; `ok: true` is added

ADMIN = "beamline.router.v1.admin."
INTERNAL_PREFIX = "beamline.router.v1.internal."  # requests between instances


class Service(Struct, frozen=True):
    """`asks` and `gives` describe request and answer in `$SRV.INFO`; `answer` raises ServiceError
    to refuse.
    """

    name: str
    says: str
    asks: str
    gives: str
    answer: Callable[[RequestFields], Awaitable[Answer]]
    prefix: str = ADMIN
    is_everywhere: bool = False  # every instance answers, not one of the queue group

    @property
    def subject(self) -> str:
        return self.prefix + self.name


def drop_absent(fields: Mapping[str, object]) -> dict[str, object]:
    """An answer leaves absent fields out, instead of null (docs/reference/contracts.md#absent)."""
    return {name: value for name, value in fields.items() if value is not None}
