"""Money as whole 1e-9 of the currency (nanos): exact sums, as in the lake (docs/reference/budgets.md#slices)."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

NANOS = 1_000_000_000  # of one unit of the currency
_NANO = Decimal("1e-9")
_MONEY = Context(prec=38, rounding=ROUND_HALF_UP)


def round_to_nanos(amount: Decimal) -> int:
    """Half up at nine places, as silver rounds a cost. Raises InvalidOperation for an amount that is not finite, or of 30 digits."""
    return int(_MONEY.quantize(amount, _NANO).scaleb(9))


def format_nanos(nanos: int) -> str:
    """The amount as text, without zeros at the end: `12.5`."""
    whole, rest = divmod(abs(nanos), NANOS)
    places = f"{rest:09d}".rstrip("0")
    return f"{'-' if nanos < 0 else ''}{whole}{'.' if places else ''}{places}"
