"""Ready or not, and why: the value behind /readyz."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct


class Check(Struct, frozen=True):
    """One condition of being ready; `detail` says what is the matter, or what is well."""

    ok: bool
    detail: str = ""


Readiness = Callable[[], Mapping[str, Check]]  # asked on the loop at each probe: quick, and never waiting


def series(checks: Mapping[str, Check]) -> dict[tuple[str, ...], int]:
    """The same as the metric `router_ready{check}` tells it."""
    return {(name,): int(check.ok) for name, check in checks.items()}


def is_ready(checks: Mapping[str, Check]) -> bool:
    return all(check.ok for check in checks.values())
