"""Usage events, each with only what a test is about."""

from typing import Any

from router.contracts.usage import UsageEvent


def a_usage_event(**fields: Any) -> UsageEvent:
    """A success of acme at openai."""
    defaults = {
        "tenant_id": "acme",
        "provider_id": "openai",
        "event_type": "chat",
        "latency_ms": 1,
        "cost": 0.5,
        "status": "success",
        "timestamp": 1,
    }
    return UsageEvent(**{**defaults, **fields})
