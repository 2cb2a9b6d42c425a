"""Labels that cannot grow without end: a stranger chooses names, Prometheus pays for each.

Both are dictionaries from a name to its label, so a known name costs one lookup: `metrics.policy[policy_id]`.
"""

from __future__ import annotations

from collections.abc import Iterable

OTHER = "other"


class Bounded(dict[str, str]):
    """The first `limit` distinct names are labels of their own, every later one is "other"."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __missing__(self, name: str) -> str:
        if len(self) >= self.limit:
            return OTHER
        self[name] = name
        return name


class Allowed(dict[str, str]):
    """Names on the list are labels of their own, every other one is "other" (METRICS_TENANT_LABEL_ALLOWLIST)."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, name) for name in names)

    def __missing__(self, name: str) -> str:
        return OTHER
