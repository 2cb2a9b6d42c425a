"""Metric labels with a bounded number of values: senders choose the names, and every new value
costs Prometheus a time series.

Both classes are dictionaries from a name to its label, so a known name costs one lookup:
`metrics.policy[policy_id]`. A label has at most 128 characters. A character that cannot be printed
(a control character, one that changes the direction of text) is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable

OTHER = "other"
MAX_LABEL = 128  # characters; the longest legal id
_CUT = "…"


def label_of(name: str) -> str:
    """The name as a label: shortened, without characters that control a terminal."""
    short = _cut(name)
    if short.isprintable():
        return short
    return _cut(
        "".join(
            c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
            for c in short
        )
    )


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + _CUT


class BoundedLabels(dict[str, str]):
    """The first `limit` distinct names are labels of their own; every later name is "other"."""

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


class AllowedLabels(dict[str, str]):
    """Listed names are labels of their own; every other name is "other"
    (METRICS_TENANT_LABEL_ALLOWLIST).
    """

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, label_of(name)) for name in names)

    def __missing__(self, name: str) -> str:
        return OTHER
