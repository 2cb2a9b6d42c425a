"""Sums that do not overflow: added in numbers so wide that nothing fills them, and written back
only if they fit.

Arrow wraps decimal128 and int64 beyond their range without an error: three costs of 9.99e28 gave a
negative sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from router.core.errors import RouterError
from router.lake.tables.gold_columns import AMOUNTS, SUMMED

MONEY_TYPE = pa.decimal128(38, 9)
_WIDE_MONEY, _WIDE_COUNT = pa.decimal256(76, 9), pa.decimal128(38, 0)
WIDE_TYPES = {
    "failed": _WIDE_COUNT,
    "correction_count": _WIDE_COUNT,
    "correction_cost": _WIDE_MONEY,
    **{column.name: _WIDE_MONEY if column.name in AMOUNTS else _WIDE_COUNT for column in SUMMED},
}
_TOO_LARGE = {
    _WIDE_MONEY: pa.scalar(10**29, _WIDE_MONEY),
    _WIDE_COUNT: pa.scalar(2**63, _WIDE_COUNT),
}


class SumOverflow(RouterError):
    """A sum is larger than its column. Nothing is written, rather than a wrong number."""

    code = "sum_overflow"


def widen(rows: pa.Table) -> pa.Table:
    """Cast the figures to numbers that hold the sum of 10^19 rows of the greatest values there are."""
    for place, name in enumerate(rows.column_names):
        if name in WIDE_TYPES:
            rows = rows.set_column(place, name, rows[name].cast(WIDE_TYPES[name]))
    return rows


def narrow(sums: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Cast the figures back to their columns' types. Raises SumOverflow, which names the first
    group of `keys` that does not fit.
    """
    for place, name in enumerate(sums.column_names):
        if name in WIDE_TYPES:
            _check(sums, name, keys)
            sums = sums.set_column(
                place, name, sums[name].cast(MONEY_TYPE if name in AMOUNTS else pa.int64())
            )
    return sums


def _check(sums: pa.Table, name: str, keys: Sequence[str]) -> None:
    is_too_large = pc.greater_equal(pc.abs(sums[name]), _TOO_LARGE[WIDE_TYPES[name]])
    if pc.any(is_too_large).as_py():
        (row,) = sums.filter(is_too_large).slice(0, 1).select([*keys, name]).to_pylist()
        group = "/".join(str(row[key]) for key in keys if row[key] not in {None, ""})
        raise SumOverflow(
            f"{name} of {group} comes to {row[name]:f}, which is more than its column holds"
        )
