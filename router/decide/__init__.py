"""Decide requests: five forms read as one, replayed or decided by policy, answered, pushed. Meaning only; delivery does the rest."""

from router.decide.handler import DecideHandler, DecideMeter, DecideRules
from router.decide.push import AssignmentBook, Push, PushRules
from router.decide.read import Limits, Reading, read
from router.decide.recorder import Recorder
from router.decide.replays import Recall, Replays

__all__ = [
    "AssignmentBook",
    "DecideHandler",
    "DecideMeter",
    "DecideRules",
    "Limits",
    "Push",
    "PushRules",
    "Reading",
    "Recall",
    "Recorder",
    "Replays",
    "read",
]
