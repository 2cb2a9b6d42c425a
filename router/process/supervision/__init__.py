"""Supervision as in Erlang: a tree of children, each with a rule for its restart. Every task of a
process has a parent.

tree        the tree as data, and its drawing
budget      how many restarts a supervisor allows
supervise   runs the tree: starts, restarts and stops children, escalates failures
helper      a child whose failure is never escalated
"""

from __future__ import annotations

from router.process.supervision.budget import SupervisionFailed
from router.process.supervision.helper import Helper, helper_states
from router.process.supervision.supervise import supervise
from router.process.supervision.tree import Child, Intensity, Restart, Strategy, Supervisor, draw

__all__ = [
    "Child",
    "Helper",
    "Intensity",
    "Restart",
    "Strategy",
    "SupervisionFailed",
    "Supervisor",
    "draw",
    "helper_states",
    "supervise",
]
