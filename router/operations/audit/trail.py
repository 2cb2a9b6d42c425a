"""What a write says of itself, and a frame for one that takes long: an event before it, and one when it ends, however it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.audit_event import BEGUN, DONE, FAILED, Values
from router.core.errors import RouterError


class OperatorWrite(Struct, kw_only=True):
    """One write; the fields are those of `AuditEvent`."""

    command: str
    target: str
    outcome: str = DONE
    tenant_id: str | None = None
    before: Values | None = None
    after: Values | None = None
    note: str | None = None
    error: str | None = None


class AuditTrail(Protocol):
    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done. It raises nothing: it says by itself that an event could not be stored."""


@asynccontextmanager
async def track(trail: AuditTrail, write: OperatorWrite) -> AsyncIterator[OperatorWrite]:
    """Two events around a write that takes long: a killed one has the first alone. The body fills in `after`."""
    await trail.record(replace(write, outcome=BEGUN))
    try:
        yield write
    except BaseException as exc:  # also a cancellation: what was done until then stands
        write.outcome, write.error = FAILED, exc.code if isinstance(exc, RouterError) else type(exc).__name__
        await trail.record(write)
        raise
    await trail.record(write)
