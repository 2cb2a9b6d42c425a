"""Decide requests: five forms read as one, answered from memory or decided by policy, answered,
pushed. Delivery sends, stores and acks.
"""

from router.decide.model.choose import PolicyDecider, ProviderChooser
from router.decide.model.handler import DecideHandler
from router.decide.model.idempotency_cache import CacheResult, IdempotencyCache
from router.decide.model.ports import DecideMeter, DecideRules, ProviderKnowledge
from router.decide.model.push import AssignmentBucket, AssignmentPusher, NewAssignment
from router.decide.model.read import RequestLimits, RequestReading, read
from router.decide.model.recorder import DecisionRecorder

__all__ = [
    "AssignmentBucket",
    "AssignmentPusher",
    "CacheResult",
    "DecideHandler",
    "DecideMeter",
    "DecideRules",
    "DecisionRecorder",
    "IdempotencyCache",
    "NewAssignment",
    "PolicyDecider",
    "ProviderChooser",
    "ProviderKnowledge",
    "RequestLimits",
    "RequestReading",
    "read",
]
