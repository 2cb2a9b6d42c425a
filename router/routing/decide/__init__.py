"""Decide requests: five forms read as one, answered from memory or decided by policy, answered, pushed. Delivery sends, stores and acks."""

from router.routing.decide.assign import NewAssignment
from router.routing.decide.choose import ProviderChooser
from router.routing.decide.handler import DecideHandler, DecideMeter, DecideRules
from router.routing.decide.idempotency_cache import CacheResult, IdempotencyCache
from router.routing.decide.push import AssignmentBucket, AssignmentPusher, PushRules
from router.routing.decide.read import RequestLimits, read
from router.routing.decide.reading import RequestReading
from router.routing.decide.recorder import DecisionRecorder

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
    "ProviderChooser",
    "PushRules",
    "RequestLimits",
    "RequestReading",
    "read",
]
