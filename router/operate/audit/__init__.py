"""What operators wrote, by a command or in the console: stored as events, and read again.

    audited_store    a versioned store whose writes leave their events
    trail            stores what a write says of itself (`OperatorWrite`); `track` for a long one
    log              stores the events, with publish acks; reads those since a time, filtered

An event is stored after its write. If it cannot be stored, the write stands, and the caller says
so. Rule: docs/reference/contracts.md#audit.
"""

from router.operate.audit.audit_event import OperatorWrite
from router.operate.audit.audited_store import AuditedStore
from router.operate.audit.log import AuditFilter, AuditLog, AuditReader, AuditWriter
from router.operate.audit.trail import AuditTrail, track

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
