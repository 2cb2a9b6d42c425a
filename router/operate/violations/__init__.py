"""Violations of the header contract for operators: read from the stream of events, and added up.

    reading    events since a time, filtered
    groups     events added up by tenant, subject, rule …, the worst first

`operate.violations.events` writes them.
"""

from router.operate.violations.groups import DIMENSIONS, ViolationGroup, add_up
from router.operate.violations.reading import (
    StoredViolation,
    ViolationFilter,
    read_one,
    read_violations,
)

__all__ = [
    "DIMENSIONS",
    "StoredViolation",
    "ViolationFilter",
    "ViolationGroup",
    "add_up",
    "read_one",
    "read_violations",
]
