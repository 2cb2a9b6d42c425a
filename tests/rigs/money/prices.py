"""What a call of each stand-in provider costs: the prices that the operator puts, and the same
computed here with decimals.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

NANO = Decimal("0.000000001")
MILLION = 1_000_000


class UnitPrice(Struct, frozen=True):
    """Of one provider. Tokens are priced for a million."""

    per_request: Decimal = Decimal(0)
    input: Decimal = Decimal(0)
    cached_input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)

    @property
    def is_flat(self) -> bool:
        return not (self.input or self.output)

    def cost(self, tokens: int, cached: int, output: int) -> Decimal:
        """Rounded once, at the end. Cached tokens are part of the input."""
        whole = self.input * (tokens - cached) + self.cached_input * cached + self.output * output
        return (self.per_request + whole / MILLION).quantize(NANO, ROUND_HALF_UP)

    def document(self, provider: str) -> dict[str, str]:
        """As `router price put` reads it."""
        amounts = {
            "per_request": self.per_request,
            "input": self.input,
            "cached_input": self.cached_input,
            "output": self.output,
        }
        priced = {name: str(amount) for name, amount in amounts.items() if amount}
        return {
            "provider": provider,
            "currency": "USD",
            "valid_from": "2026-01-01T00:00:00Z",
            "trust": "computed",
            **priced,
        }


FLAT = UnitPrice(per_request=Decimal("0.02"))
BY_TOKEN = UnitPrice(input=Decimal(150), cached_input=Decimal(75), output=Decimal(600))

GOOD, FLAKY, SLY, TALKER, ENDLESS = "good", "flaky", "sly", "talker", "endless"
PRICES = {GOOD: FLAT, FLAKY: FLAT, SLY: FLAT, TALKER: BY_TOKEN, ENDLESS: BY_TOKEN}
