"""Read the costs from the text of the bodies again, by other means than those that filled silver: Arrow, and Decimal in doubt.

The number is taken from the text with all its digits and rounded half up to nine places: never a float.
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.reconcile.checks import ReconcileCheck, name_first
from router.lake.reconcile.exact import format_money, sum_exactly
from router.lake.reconcile.snapshot import WarehouseSnapshot

MONEY_TYPE = pa.decimal128(38, 9)
SEQUENCES_PER_STEP = 250_000  # sequences at a time
_EXACT = pa.decimal256(76, 40)
# At most as many digits and as great an exponent as `_EXACT` holds; Decimal reads any other number.
_COST = r'"cost"\s*:\s*(?P<cost>-?[0-9]{1,17}(?:\.[0-9]{1,20})?(?:[eE][-+]?1?[0-9])?)\s*[,}]'
_NINE = Decimal("0.000000001")
_WIDE = Context(prec=100)
_TOO_LARGE = Decimal("1e29")


def check_amounts(tables: WarehouseSnapshot) -> ReconcileCheck:
    """Check that each event costs in silver what its message says."""
    wrong: list[int] = []
    count, in_bronze, in_silver = 0, 0, 0
    sequences = tables.read_column("silver", "seq", pa.int64())
    if not len(sequences):
        return ReconcileCheck("cost: bronze = silver", True, "silver is empty")
    first, last = pc.min(sequences).as_py(), pc.max(sequences).as_py()
    for start in range(first, last + 1, SEQUENCES_PER_STEP):
        pairs = _read_pairs(tables, start, start + SEQUENCES_PER_STEP - 1)
        if pairs is None:
            continue
        bodies, costs = pairs
        read = read_costs(bodies["data"], costs["cost"])
        differs = pc.not_equal(read, costs["cost"].combine_chunks())
        wrong += costs["seq"].combine_chunks().filter(pc.fill_null(differs, True)).to_pylist()
        count, in_bronze, in_silver = count + len(costs), in_bronze + sum_exactly(read.drop_null()), in_silver + sum_exactly(costs["cost"])
    figures = {"events": count, "bronze": format_money(in_bronze), "silver": format_money(in_silver), "differ": len(wrong)}
    says = f"{format_money(in_silver)} over {count} events"
    return ReconcileCheck("cost: bronze = silver", not wrong and count == len(sequences), says, figures, name_first(wrong))


def read_costs(bodies: pa.ChunkedArray, expected: pa.ChunkedArray) -> pa.Array:
    """Return the cost of each body, decimal(38,9). A body that seems to differ from `expected` is parsed once more, as JSON."""
    text = bodies.cast(pa.string()).combine_chunks()
    found = pc.struct_field(pc.extract_regex(text, _COST), "cost")
    costs = pc.round(found.cast(_EXACT), 9, "half_towards_infinity").cast(MONEY_TYPE)
    doubted = pc.fill_null(pc.not_equal(costs, expected.combine_chunks()), True)
    if not pc.any(doubted).as_py():
        return costs
    again = iter([_parse_cost(body) for body in text.filter(doubted).to_pylist()])
    return pc.replace_with_mask(costs, doubted, pa.array(list(again), MONEY_TYPE))


def _read_pairs(tables: WarehouseSnapshot, first: int, last: int) -> tuple[pa.Table, pa.Table] | None:
    """Return messages and their events, row by row the same sequences; an event without its message is left out."""
    costs = tables.read_between("silver", ["seq", "cost"], first, last)
    bodies = tables.read_between("bronze", ["seq", "data"], first, last)
    if costs is None or bodies is None:
        return None
    places = pc.index_in(costs["seq"], bodies["seq"].combine_chunks())
    costs = costs.filter(pc.is_valid(places))
    return bodies.take(places.drop_null()), costs


def _parse_cost(body: str) -> Decimal | None:
    """Return the cost of a body; None if it has none that could be summed."""
    try:
        cost = json.loads(body, parse_float=Decimal, parse_int=Decimal).get("cost")
        cost = cost.quantize(_NINE, ROUND_HALF_UP, _WIDE) if isinstance(cost, Decimal) else None
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return cost if cost is not None and abs(cost) < _TOO_LARGE else None
