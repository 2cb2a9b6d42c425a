"""What reading a decide request gives. `read_plain` and `read` make it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from router.contracts.header_rules import Violation
from router.contracts.request import NO_HINTS, RouteRequest
from router.core.outcome import Fault


class RequestReading(Struct, frozen=True, gc=False):
    """The request, or why it is invalid; and the ids for the answer's context and headers in both
    cases.
    """

    asked: RouteRequest | Fault
    answer_id: str
    trace_id: str | None
    tenant_id: str | None
    violations: tuple[Violation, ...] = ()
    hints: Mapping[str, str] = NO_HINTS  # of a Fault; a request has its own
