"""What a reconciliation says: a check for each equation, its figures, and what breaks it by name. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

NAMED = 20  # of what breaks a check, so many are named


class Check(Struct, frozen=True):
    """One equation. `is_right` None: it could not be looked at, and `says` tells why."""

    name: str
    is_right: bool | None
    says: str
    figures: Mapping[str, object] = {}
    ids: Sequence[str] = ()  # sequences, event ids or groups that break it; the first ones

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "differs", None: "skipped"}[self.is_right]


class Account(Struct, frozen=True):
    """All of them."""

    checks: Sequence[Check]

    @property
    def is_right(self) -> bool:
        """Nothing differs. What was skipped proves nothing, and breaks nothing."""
        return all(check.is_right is not False for check in self.checks)

    def to_json(self) -> dict[str, object]:
        told = [
            {"name": check.name, "verdict": check.verdict, "says": check.says, **check.figures, "ids": list(check.ids)}
            for check in self.checks
        ]
        return {"agrees": self.is_right, "checks": told}


def named(ids: Iterable[object]) -> tuple[str, ...]:
    """The first ones."""
    return tuple(str(one) for one in islice(ids, NAMED))


def runs(sequences: Iterable[int]) -> list[str]:
    """Rising numbers as `5` and `7-12`."""
    found: list[list[int]] = []
    for sequence in sequences:
        if found and found[-1][1] + 1 == sequence:
            found[-1][1] = sequence
        else:
            found.append([sequence, sequence])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]
