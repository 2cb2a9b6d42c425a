"""Sequences that a check names: how many, and the first of them as spans. The tasks find them, the driver puts them together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from router.lake.reconcile.checks import NAMED
from router.lake.reconcile.shuffle import Integers

Span = tuple[int, int]


class Sequences(Struct, frozen=True):
    """`spans`: the first ones, rising, both ends inclusive."""

    count: int = 0
    spans: tuple[Span, ...] = ()

    def format(self) -> list[str]:
        """Write them as `5` and `7-12`."""
        return [str(first) if first == last else f"{first}-{last}" for first, last in self.spans]


def list_sequences(rising: Integers) -> Sequences:
    """Return the rising numbers as spans."""
    if not len(rising):
        return Sequences()
    ends = np.flatnonzero(np.diff(rising) > 1)
    firsts, lasts = np.concatenate([rising[:1], rising[ends + 1]]), np.concatenate([rising[ends], rising[-1:]])
    return Sequences(len(rising), tuple(zip(firsts[:NAMED].tolist(), lasts[:NAMED].tolist(), strict=True)))


def join_sequences(parts: Iterable[Sequences]) -> Sequences:
    """Put the parts together, which are of neighbouring ranges, in order."""
    count, spans = 0, list[Span]()
    for part in parts:
        count += part.count
        for first, last in part.spans:
            if spans and spans[-1][1] + 1 == first:
                spans[-1] = (spans[-1][0], last)
            else:
                spans.append((first, last))
    return Sequences(count, tuple(spans[:NAMED]))
