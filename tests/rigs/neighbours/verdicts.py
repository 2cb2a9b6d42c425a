"""Whether the promises were kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tests.rigs.neighbours.figures import ALLOWED_RATIO, is_within
from tests.rigs.neighbours.result import RowResult
from tests.rigs.neighbours.rows import BY_NAME

YES, NO, MACHINE = "yes", "**no**", "as the machine"
TOLD_MS, RECOVERED_S, STEADY_SHARE = 50.0, 5.0, 1.1


def judge(found: RowResult, others: Sequence[RowResult]) -> str:
    """Whether the promise was kept. Of a noise row there is none: it is what the machine does by
    itself.
    """
    row = BY_NAME[found.row]
    if row.is_noise:
        return ""
    if is_within(found.alone, found.beside):
        return YES
    noise = next((one for one in others if one.row == row.noise), None)
    if (
        noise is not None
        and found.beside.lost == 0
        and found.beside.p99_ms <= ALLOWED_RATIO * noise.beside.p99_ms
    ):
        return MACHINE
    return NO


def overload_checks(found: RowResult) -> dict[str, bool]:
    """What is promised of an overload."""
    half, whole = (_most(found, 0.0, found.seconds * share) for share in (0.5, 1.0))
    again = found.normal_again_s
    return {
        "memory bounded (the second half adds at most a tenth)": whole <= STEADY_SHARE * half,
        f"overloaded told within {TOLD_MS:g} ms (p99)": found.neighbour.get(
            "overloaded_p99_ms", TOLD_MS + 1
        )
        <= TOLD_MS,
        f"normal within {RECOVERED_S:g} s": again is not None and again <= RECOVERED_S,
    }


def _most(found: RowResult, begin: float, end: float) -> float:
    return max(
        (sample.resident_mib for sample in found.samples if begin <= sample.at_s <= end),
        default=0.0,
    )
