"""What operators wrote, by a command or in the console: stored as events, and read again.

    log    stores the events, with publish acks; reads those since a time, filtered; `track` is for
           a long write, `AuditedStore` a versioned store whose writes leave their events

An event is stored after its write. If it cannot be stored, the write stands, and the caller says
so. Rule: docs/reference/contracts.md#audit.
"""

from router.operate.audit.audit_event import OperatorWrite
from router.operate.audit.log import (
    AuditedStore,
    AuditFilter,
    AuditLog,
    AuditReader,
    AuditTrail,
    AuditWriter,
    track,
)

__all__ = [
    "AuditFilter",
    "AuditLog",
    "AuditReader",
    "AuditTrail",
    "AuditWriter",
    "AuditedStore",
    "OperatorWrite",
    "track",
]
