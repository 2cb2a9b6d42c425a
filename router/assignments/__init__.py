"""Known assignments: found by their id, compared with what workers say of them. Meaning only; the bucket is a port."""

from router.assignments.correlate import contradiction, correlated
from router.assignments.known import KnownAssignments, KnownMemory

__all__ = ["KnownAssignments", "KnownMemory", "contradiction", "correlated"]
