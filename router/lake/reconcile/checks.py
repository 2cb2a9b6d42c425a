"""The result of a reconciliation: a check for each equation, its figures, and the names of what
breaks it. Values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

NAMED = 20  # how many sequences, ids or groups a failed check names


class ReconcileCheck(Struct, frozen=True):
    """One equation. `is_right` None: the check could not run, and `says` gives the reason."""

    name: str
    is_right: bool | None
    says: str
    figures: Mapping[str, object] = {}
    ids: Sequence[str] = ()  # sequences, event ids or groups that break it; the first ones

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "differs", None: "skipped"}[self.is_right]


class Reconciliation(Struct, frozen=True):
    checks: Sequence[ReconcileCheck]

    @property
    def is_right(self) -> bool:
        """No check differs. A skipped check proves nothing, and breaks nothing."""
        return all(check.is_right is not False for check in self.checks)

    def to_json(self) -> dict[str, object]:
        checks = [
            {
                "name": check.name,
                "verdict": check.verdict,
                "says": check.says,
                **check.figures,
                "ids": list(check.ids),
            }
            for check in self.checks
        ]
        return {"agrees": self.is_right, "checks": checks}


def name_first(ids: Iterable[object]) -> tuple[str, ...]:
    """Return the first NAMED of them as text."""
    return tuple(str(one) for one in islice(ids, NAMED))
