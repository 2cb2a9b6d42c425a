"""What is typed for a canary: guards like `error_rate<=1.2x`, times like `1h`."""

from __future__ import annotations

import re

from router.contracts.canary import GUARDED, MAX_RATIO, MAX_SPAN_MS, CanaryGuard

_GUARD = re.compile(r"([a-z0-9_]{1,32})\s*<=\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)x")
_SPAN = re.compile(r"([0-9]{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class GuardError(ValueError):
    """It says what is legal."""


def parse_guard(text: str) -> CanaryGuard:
    """Raises GuardError."""
    found = _GUARD.fullmatch(text.strip())
    if found is None or found[1] not in GUARDED or not 1 <= float(found[2]) <= MAX_RATIO:
        raise GuardError(
            f"write {' or '.join(f'{name}<=1.2x' for name in GUARDED)}; the factor is 1 … "
            f"{MAX_RATIO:g}"
        )
    return CanaryGuard(found[1], float(found[2]))


def parse_span_ms(text: str) -> int:
    """`30s`, `10m`, `1h`, `7d`. Raises GuardError."""
    found = _SPAN.fullmatch(text.strip())
    span_ms = int(found[1]) * _UNIT_MS[found[2]] if found is not None else 0
    if not 0 < span_ms <= MAX_SPAN_MS:
        raise GuardError("write 30s, 10m, 1h or 7d; at most 30d")
    return span_ms
