"""Sum for a reconciliation, by other means than those that filled gold: 32-bit limbs, summed apart,
combined as Python integers.

    1234567890123.000000001  ->  its unscaled 128 bits  ->  four limbs  ->  four int64 sums by group
                                                        ->  one integer of any size

A limb is below 2^32, so 2^30 of them fit into 64 bits; after that many rows the sums become Python
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BITS = 32
MAX_SUMMED_LIMBS = 1 << 30  # limbs that int64 can sum
NANOS_PER_UNIT = 10**9
# The greatest whole latency of each bucket: 1.02^i, rounded down, in whole numbers.
_EDGES = np.array(
    [edge for edge in (51**number // 50**number for number in range(2210)) if edge < 2**63],
    np.int64,
)

Group = tuple[Any, ...]


class ExactSums:
    """Sums by group of some columns: int64, or decimals in whole 1e-9. As Python integers, so none
    overflows.
    """

    def __init__(self, group: Sequence[str], figures: Sequence[str]) -> None:
        self._group = list(group)
        self._figures = list(figures)
        self._sums: dict[Group, list[int]] = {}

    def add(self, rows: pa.Table) -> None:
        """Add fewer than 2^30 rows."""
        self.add_limbs(sum_limbs(rows, self._group, self._figures))

    def add_limbs(self, sums: pa.Table) -> None:
        """Add what `sum_limbs` made."""
        groups = zip(*(sums[name].to_pylist() for name in self._group), strict=True)
        figures = zip(*(_combine_limbs(sums, name) for name in self._figures), strict=True)
        for group, added in zip(groups, figures, strict=True):
            known = self._sums.get(group)
            self._sums[group] = (
                list(added)
                if known is None
                else [one + more for one, more in zip(known, added, strict=True)]
            )

    def sum_groups(self) -> dict[Group, tuple[int, ...]]:
        return {group: tuple(found) for group, found in self._sums.items()}


def sum_limbs(rows: pa.Table, group: Sequence[str], figures: Sequence[str]) -> pa.Table:
    """Sum the limbs of fewer than 2^30 rows by group: columns `cost.0`, `cost.32` and so on, which
    int64 holds.
    """
    if len(rows) >= MAX_SUMMED_LIMBS:
        raise ValueError(f"{len(rows)} rows at once: sum fewer than {MAX_SUMMED_LIMBS}")
    columns = {
        f"{name}.{shift}": limb for name in figures for shift, limb in split_limbs(rows[name])
    }
    return _sum_groups(pa.table({**{name: rows[name] for name in group}, **columns}), list(group))


def _combine_limbs(sums: pa.Table, figure: str) -> list[int]:
    limbs = [
        (int(name.rpartition(".")[2]), name)
        for name in sums.column_names
        if name.rpartition(".")[0] == figure
    ]
    columns = [(shift, sums[name].to_pylist()) for shift, name in limbs]
    return [sum(column[row] << shift for shift, column in columns) for row in range(len(sums))]


def sum_exactly(column: pa.Array | pa.ChunkedArray) -> int:
    """Sum a column: decimals in whole 1e-9, int64 as they are."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return sum(
        (pc.sum(limb).as_py() or 0) << shift
        for chunk in chunks
        for shift, limb in _split_array(chunk)
    )


def format_money(nanos: int) -> str:
    """Format whole 1e-9 with nine decimals, whatever the number of digits."""
    whole, rest = divmod(abs(nanos), NANOS_PER_UNIT)
    return f"{'-' if nanos < 0 else ''}{whole}.{rest:09d}"


def find_buckets(latency: pa.ChunkedArray) -> pa.Array:
    """Return the bucket of each latency (ms): the least i with 1.02^i not below it, by whole
    numbers; -1 for no latency.
    """
    numbers = latency.to_numpy()
    return pa.array(np.where(numbers <= 0, -1, np.searchsorted(_EDGES, numbers)), pa.int64())


def split_limbs(column: pa.ChunkedArray) -> list[tuple[int, pa.Array]]:
    """Return each limb with its shift in bits, the lowest first; only the highest can be negative."""
    return _split_array(column.combine_chunks())


def _split_array(array: pa.Array) -> list[tuple[int, pa.Array]]:
    array = array if pa.types.is_decimal128(array.type) else array.cast(pa.int64())
    many = array.type.bit_width // BITS
    words = np.frombuffer(
        array.buffers()[1] or b"", np.uint32, many * len(array), array.offset * many * BITS // 8
    )
    table = words.reshape(-1, many)
    limbs = [table[:, place] for place in range(many - 1)] + [table[:, many - 1].view(np.int32)]
    return [(place * BITS, pa.array(limb.astype(np.int64))) for place, limb in enumerate(limbs)]


def _sum_groups(table: pa.Table, group: list[str]) -> pa.Table:
    names = [name for name in table.column_names if name not in group]
    made = table.group_by(group).aggregate([(name, "sum") for name in names])
    return made.rename_columns(
        [name.removesuffix("_sum") if name not in group else name for name in made.column_names]
    )
