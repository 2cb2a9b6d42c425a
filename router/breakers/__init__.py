"""Circuit breakers: who failed too often is left alone for a while, then tried with a few calls. Pure: no broker, no waiting.

    CircuitBreaker      one breaker: who may call, and whose outcome is heard
      States    pybreaker's, stepped by outcomes
      Probes    who is inside while it is half open, each until its own time
      Window    how many of the last calls failed
    BreakerRegistry      breakers by name, as many as it may hold

Whose outcomes they are fed with, who else hears of an opening, and what operators are told is said elsewhere
(`policy.breakers`, `app.breakers`).
"""

from router.breakers.breaker import CircuitBreaker
from router.breakers.registry import BreakerRegistry
from router.breakers.rules import BreakerRules
from router.breakers.snapshot import CLOSED, HALF_OPEN, OPEN, BreakerSnapshot, BreakerTransition, CallPermit
from router.breakers.window import Window

__all__ = [
    "CLOSED",
    "HALF_OPEN",
    "OPEN",
    "BreakerRegistry",
    "BreakerRules",
    "BreakerSnapshot",
    "BreakerTransition",
    "CallPermit",
    "CircuitBreaker",
    "Window",
]
