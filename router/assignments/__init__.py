"""Assignments by their id, and the comparison of workers' messages with them. It only decides; the bucket is a port."""

from router.assignments.correlate import contradiction, correlated
from router.assignments.known import KnownAssignments, KnownMemory

__all__ = ["KnownAssignments", "KnownMemory", "contradiction", "correlated"]
