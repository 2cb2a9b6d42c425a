"""Assignments by their id, and the comparison of workers' messages with them. It only decides; the bucket is a port."""

from router.assignments.correlate import correlate, find_contradiction
from router.assignments.lookup import AssignmentCache, AssignmentLookup

__all__ = ["AssignmentCache", "AssignmentLookup", "correlate", "find_contradiction"]
