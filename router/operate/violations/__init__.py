"""Violations of the header contract for operators: read from the stream of events, and added up.

    groups     events since a time, filtered; added up by tenant, subject, rule …, the worst first

`operate.violations.events` writes them.
"""

from router.operate.violations.groups import (
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
