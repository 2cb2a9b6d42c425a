"""Ready or not, and why: the value behind /readyz."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct


class ReadinessCheck(Struct, frozen=True):
    """One condition of readiness; `detail` describes the problem, or the healthy state."""

    ok: bool
    detail: str = ""


# called on the loop at each probe: it must be quick and must not wait
Readiness = Callable[[], Mapping[str, ReadinessCheck]]


def readiness_series(checks: Mapping[str, ReadinessCheck]) -> dict[tuple[str, ...], int]:
    """The checks as the series of the metric `router_ready{check}`."""
    return {(name,): int(check.ok) for name, check in checks.items()}


def is_ready(checks: Mapping[str, ReadinessCheck]) -> bool:
    return all(check.ok for check in checks.values())
