"""Read the costs from the text of the bodies again, by other means than those that filled silver: Arrow, and Decimal in doubt.

The number is taken from the text with all its digits and rounded half up to nine places: never a float.
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

MONEY_TYPE = pa.decimal128(38, 9)
_EXACT = pa.decimal256(76, 40)
# At most as many digits and as great an exponent as `_EXACT` holds; Decimal reads any other number.
_COST = r'"cost"\s*:\s*(?P<cost>-?[0-9]{1,17}(?:\.[0-9]{1,20})?(?:[eE][-+]?1?[0-9])?)\s*[,}]'
_NINE = Decimal("0.000000001")
_WIDE = Context(prec=100)
_TOO_LARGE = Decimal("1e29")


def read_costs(bodies: pa.ChunkedArray) -> pa.Array:
    """Return the cost of each body, decimal(38,9), null if it has none.

    A body is parsed as JSON if its text alone does not say it: a second "cost" may be another field's, and a backslash may hide one.
    """
    text = bodies.combine_chunks()
    found = pc.struct_field(pc.extract_regex(text, _COST), "cost").cast(pa.string()).cast(_EXACT)
    rounded = pc.round(found, 9, "half_towards_infinity")
    is_plain = pc.and_(pc.equal(pc.count_substring(text, '"cost"'), 1), pc.invert(pc.match_substring(text, "\\")))
    is_plain = pc.and_(is_plain, pc.fill_null(pc.less(pc.abs(rounded), pa.scalar(_TOO_LARGE, _EXACT)), False))
    costs = pc.if_else(is_plain, rounded, pa.scalar(None, _EXACT)).cast(MONEY_TYPE)
    if pc.all(is_plain).as_py():
        return costs
    again = [_parse_cost(body) for body in text.filter(pc.invert(is_plain)).to_pylist()]
    return pc.replace_with_mask(costs, pc.invert(is_plain), pa.array(again, MONEY_TYPE))


def _parse_cost(body: bytes) -> Decimal | None:
    """Return the cost of a body; None if it has none that could be summed."""
    try:
        found = json.loads(body, parse_float=Decimal, parse_int=Decimal)
        cost = found.get("cost") if isinstance(found, dict) else None
        cost = cost.quantize(_NINE, ROUND_HALF_UP, _WIDE) if isinstance(cost, Decimal) else None
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return cost if cost is not None and abs(cost) < _TOO_LARGE else None
