"""Money as whole 1e-9 of the currency (nanos): exact sums, as in the lake
(docs/reference/budgets.md#slices).
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal

NANOS = 1_000_000_000  # of one unit of the currency
_NANO = Decimal("1e-9")
_MONEY = Context(prec=38, rounding=ROUND_HALF_UP)


_SIGNED = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,9})?")


def parse_amount(text: str) -> Decimal:
    """An amount as it is written: `-12.50`. Raises ValueError for another text, and for more digits
    than a message's number holds.
    """
    if _SIGNED.fullmatch(text) is None:
        raise ValueError("should be like 12.50 or -12.50, with at most nine decimal places")
    amount = Decimal(text)
    if Decimal(repr(float(amount))) != amount:
        raise ValueError("has more digits than a number of JSON holds: about 15 in all")
    return amount


def round_to_nanos(amount: Decimal) -> int:
    """Half up at nine places, as silver rounds a cost. Raises InvalidOperation for an amount that
    is not finite, or of 30 digits.
    """
    return int(_MONEY.quantize(amount, _NANO).scaleb(9))


def format_nanos(nanos: int) -> str:
    """The amount as text, without zeros at the end: `12.5`."""
    whole, rest = divmod(abs(nanos), NANOS)
    places = f"{rest:09d}".rstrip("0")
    return f"{'-' if nanos < 0 else ''}{whole}{'.' if places else ''}{places}"
