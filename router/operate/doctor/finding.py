"""One result of a check: what was found, how bad it is, and what to do. And how its numbers are
written for people.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, with a risk
    FAIL = "fail"  # it does not work, or messages are being lost


class Finding(Struct, frozen=True):
    """`remedy` is empty when all is well."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.WARN, found, remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.FAIL, found, remedy)


_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def span(seconds: float) -> str:
    """A duration in its largest fitting unit: `1.5 h`, `2 min`, `0.1 s`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{round(seconds / size, 1):g} {unit}"
    return f"{seconds:.2g} s"


def share(part: float) -> str:
    """A part of one as a percentage."""
    return f"{part:.0%}" if part >= 0.01 or part == 0 else "below 1%"


def size(count: float) -> str:
    """Bytes in their largest fitting unit: `2.1 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
