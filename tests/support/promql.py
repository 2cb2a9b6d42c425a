"""What a PromQL expression reads: its metrics, with the labels that it matches, groups by and joins
on.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

# A recorded name has colons; the others of ours and of every process begin like this.
_METRIC = re.compile(
    r"\b([a-zA-Z_]\w*(?::\w+)+|(?:router|process|scrape|python)_\w+|up|ALERTS)\b\s*(\{[^}]*\})?"
)
_MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")


class QueriedMetric(Struct, frozen=True):
    """`labels`: of this metric alone, `grouped`: of all that stand in the expression."""

    metric: str
    labels: frozenset[str]
    grouped: frozenset[str]


def read_query(expr: str) -> Iterator[QueriedMetric]:
    grouped = frozenset(
        label.strip()
        for group in _GROUPED.findall(expr)
        for label in group.split(",")
        if label.strip()
    )
    for metric, matchers in _METRIC.findall(_GROUPED.sub(" ", expr)):
        yield QueriedMetric(metric, frozenset(_MATCHED.findall(matchers)), grouped)


def histogram_of(metric: str) -> str:
    """`x_seconds` of `x_seconds_bucket`."""
    return _SUFFIX.sub("", metric)
