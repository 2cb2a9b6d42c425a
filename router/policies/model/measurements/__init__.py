"""What is learned of providers from results of known assignments: latency, cost, success rate, what
is in flight. Pure: no broker.

    Measurements        by tenant and provider, a bounded number
      MeasuredTenant    one tenant: its own outcomes, what other instances wrote, the figures of
                        both
      MeasuredProvider  one provider: two minutes of outcomes, moving averages, assignments in
                        flight
    LearnedFigures      what a decision sees of a provider, and what is recorded with it

A policy's strategy chooses by them (`policy.strategy`); `policies.shared_measurements` shares them
among instances.
"""

from router.policies.model.measurements.measured_provider import MIN_SAMPLES, MINUTE_S
from router.policies.model.measurements.measured_tenant import REFRESH_S
from router.policies.model.measurements.measurements import Measurements
from router.policies.model.measurements.values import (
    NO_FIGURES,
    ErrorCounts,
    LearnedFigures,
    TenantFigures,
    add_up,
    find_percentile,
)

__all__ = [
    "MINUTE_S",
    "MIN_SAMPLES",
    "NO_FIGURES",
    "REFRESH_S",
    "ErrorCounts",
    "LearnedFigures",
    "Measurements",
    "TenantFigures",
    "add_up",
    "find_percentile",
]
