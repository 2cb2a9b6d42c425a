"""A frame for a write that takes long: an event before it, and one when it ends, however it ends;
and who stores the events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from msgspec.structs import replace

from router.core.errors import RouterError
from router.operate.audit.audit_event import BEGUN, FAILED, OperatorWrite


class AuditTrail(Protocol):
    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done. It raises nothing: it says by itself that an
        event could not be stored.
        """


@asynccontextmanager
async def track(trail: AuditTrail, write: OperatorWrite) -> AsyncIterator[OperatorWrite]:
    """Two events around a write that takes long: a killed one has the first alone. The body fills
    in `after`.
    """
    await trail.record(replace(write, outcome=BEGUN))
    try:
        yield write
    except BaseException as exc:  # also a cancellation: what was done until then stands
        write.outcome, write.error = (
            FAILED,
            exc.code if isinstance(exc, RouterError) else type(exc).__name__,
        )
        await trail.record(write)
        raise
    await trail.record(write)
