"""Circuit breakers: a service that failed too often is not called for a while, then tried with a
few calls. Pure: no broker, no wait.

    CircuitBreaker    gives permits for calls and records their outcomes
      States          pybreaker's states, driven by outcomes
      Probes          the calls in flight while it is half open, each with an expiry
      Window          the error rate of the last calls
    BreakerRegistry   breakers by service and tenant, a bounded number

Other rooms feed them with outcomes, share openings among instances and report to operators
(`policy.breakers`, `policies.breakers`).
"""

from router.core.breakers.breaker import CircuitBreaker
from router.core.breakers.registry import BreakerRegistry, ServiceSnapshot
from router.core.breakers.states import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    BreakerRules,
    BreakerSnapshot,
    BreakerTransition,
    CallPermit,
    Window,
)

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
    "ServiceSnapshot",
    "Window",
]
