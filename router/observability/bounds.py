"""Labels that cannot grow without end: a sender chooses names, Prometheus pays for each.

Both are dictionaries from a name to its label, so a known name costs one lookup: `metrics.policy[policy_id]`. A label has at most
128 characters, and each letter that cannot be printed (control characters, those that change the direction of text) as an escape.
"""

from __future__ import annotations

from collections.abc import Iterable

OTHER = "other"
MAX_LABEL = 128  # characters; the longest legal id
_CUT = "…"


def label_of(name: str) -> str:
    """The name as it may stand on a page: short, and without a letter that steers a terminal."""
    short = _cut(name)
    if short.isprintable():
        return short
    return _cut("".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in short))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + _CUT


class Bounded(dict[str, str]):
    """The first `limit` distinct labels are there by name, every later one is "other"."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __missing__(self, name: str) -> str:
        label = label_of(name)
        if label in self:
            return label
        if len(self) >= self.limit:
            return OTHER
        self[label] = label  # never under the name itself, which may be a megabyte
        return label


class Allowed(dict[str, str]):
    """Names on the list are labels of their own, every other one is "other" (METRICS_TENANT_LABEL_ALLOWLIST)."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, label_of(name)) for name in names)

    def __missing__(self, name: str) -> str:
        return OTHER
