"""Decide requests: five forms read as one, replayed or decided by policy, answered. Meaning only; delivery does the rest."""

from router.decide.handler import DecideHandler, DecideMeter, DecideRules
from router.decide.read import Limits, Reading, read
from router.decide.replays import Recall, Replays

__all__ = ["DecideHandler", "DecideMeter", "DecideRules", "Limits", "Reading", "Recall", "Replays", "read"]
