"""Why bytes are not a valid message: the validation codes of a dead letter, the stages that find
them, the exception that carries both.

Readers raise `Malformed`; their caller turns it into a Fault, and the Fault becomes the error reply
and the dead letter. No text here repeats a value of the message: values may be secrets.
"""

from __future__ import annotations

from collections.abc import Sequence

from router.core.errors import Poison
from router.core.outcome import Fault

SCHEMA_VALIDATION_FAILED = "SCHEMA_VALIDATION_FAILED"
VERSION_UNSUPPORTED = "VERSION_UNSUPPORTED"
CORRELATION_FIELDS_INVALID = "CORRELATION_FIELDS_INVALID"
TENANT_FORBIDDEN = "TENANT_FORBIDDEN"
PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
HEADER_CONTRACT_VIOLATION = "HEADER_CONTRACT_VIOLATION"

# Every code that a dead letter's `validation_error` may have
# (docs/reference/contracts.md#dead-letters).
VALIDATION_CODES = frozenset(
    {
        SCHEMA_VALIDATION_FAILED,
        VERSION_UNSUPPORTED,
        CORRELATION_FIELDS_INVALID,
        TENANT_FORBIDDEN,
        PAYLOAD_TOO_LARGE,
        HEADER_CONTRACT_VIOLATION,
    }
)

# A dead letter's `context.validation_stage`, in the order in which a message passes them.
STAGE_SIZE = "size"
STAGE_DECODE = "decode"
STAGE_HEADERS = "headers"
STAGE_VERSION = "version"
STAGE_SCHEMA = "schema"
STAGE_CORRELATION = "correlation"
STAGE_TENANT = "tenant"
STAGES = (
    STAGE_SIZE,
    STAGE_DECODE,
    STAGE_HEADERS,
    STAGE_VERSION,
    STAGE_SCHEMA,
    STAGE_CORRELATION,
    STAGE_TENANT,
)


class Malformed(Poison):
    """These bytes can never be read: `code` is one of VALIDATION_CODES, `field` the place in the
    RouteRequest.
    """

    def __init__(self, code: str, message: str, stage: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.field = field

    def as_fault(self) -> Fault:
        return Fault(self.code, str(self), self.field, self.stage)


def missing_field(name: str, place: str) -> Malformed:
    """The specified error text: `Missing required field: tenant_id`, at `message.tenant_id`."""
    return Malformed(
        SCHEMA_VALIDATION_FAILED, f"Missing required field: {name}", STAGE_SCHEMA, place
    )


def invalid_field(name: str, place: str, legal: str) -> Malformed:
    """A field of the wrong kind; `legal` says what would have been right."""
    return Malformed(
        SCHEMA_VALIDATION_FAILED, f"Invalid field: {name} must be {legal}", STAGE_SCHEMA, place
    )


def invalid_correlation(name: str, place: str, legal: str) -> Malformed:
    """An id by which messages are tied together is unusable."""
    return Malformed(
        CORRELATION_FIELDS_INVALID,
        f"Invalid field: {name} must be {legal}",
        STAGE_CORRELATION,
        place,
    )


def miss_ids(names: Sequence[str]) -> Malformed:
    """None of the ids is there, one of which ties the message to others."""
    problem = f"Missing required field: {' or '.join(names)}"
    return Malformed(CORRELATION_FIELDS_INVALID, problem, STAGE_CORRELATION, names[0])
