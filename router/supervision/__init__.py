"""Erlang's idea, Python's means: a tree of children, each with a rule for its restart; no task without a parent.

tree        the tree as data, and its drawing
budget      how many restarts are too many
supervise   the tree brought to life: start, restart, climb, stop
helper      a child whose failure never climbs
"""

from __future__ import annotations

from router.supervision.budget import SupervisionFailed
from router.supervision.helper import Helper, failing
from router.supervision.supervise import supervise
from router.supervision.tree import Child, Intensity, Restart, Strategy, Supervisor, draw

__all__ = ["Child", "Helper", "Intensity", "Restart", "Strategy", "SupervisionFailed", "Supervisor", "draw", "failing", "supervise"]
