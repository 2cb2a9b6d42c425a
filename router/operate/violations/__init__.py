"""Violations of the header contract for operators: read from the stream of events, and added up.

`violations` counts them, once for each message, and `windows` say which get an event of their own.
`events` writes the events, and reads them: filtered, and added up, the worst first.
"""

from router.operate.violations.events import (
    DIMENSIONS,
    StoredViolation,
    ViolationFilter,
    ViolationGroup,
    ViolationReader,
    add_up,
)

__all__ = [
    "DIMENSIONS",
    "StoredViolation",
    "ViolationFilter",
    "ViolationGroup",
    "ViolationReader",
    "add_up",
]
