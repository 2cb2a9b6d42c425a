"""What an attempt costs: from its price and what its provider told, else from what passed by.

Every amount is a whole number of 1e-9 of the currency, those of tokens for a million of them.
Products are added exactly, and the sum is rounded once, half up (docs/reference/prices.md#cost).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.prices.passed_by import OutputMark, PassedBy
from router.budgets.model.prices.price import Price
from router.budgets.model.prices.ratio_sums import weigh
from router.budgets.model.prices.ratios import TokenRatio, TokenRatios
from router.contracts.money import NANOS
from router.contracts.usage import MAX_TOKENS

MILLION = 1_000_000


class CostLimits(Struct, frozen=True):
    """In nanos: `most` of any attempt, `unpriced` of a told cost that no price stands behind.

    A provider's word is believed up to `factor` times what may be expected, and up to `floor`.
    """

    most: int
    unpriced: int
    factor: Decimal
    floor: int


class PricedUsage(Struct, frozen=True, kw_only=True):
    """What a usage event takes over.

    `nanos`: the cost in 1e-9 of the currency. `price`: its name and version, None without one.
    `estimated`: a count that the cost is made of, or the cost, is not what was told of the whole.
    `told_nanos`: what follows from the provider's word where that is above the bound; `nanos` is
    the bound, and the rest is held.
    """

    nanos: int
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    price: str | None = None
    estimated: bool
    told_nanos: int | None = None

    @property
    def cost(self) -> float:
        """As an event's number: it reads back as the same nanos up to millions of the currency."""
        return self.nanos / NANOS


class Tokens(Struct, frozen=True):
    """Of one attempt. `cached` is a part of `input`."""

    input: int
    cached: int
    output: int
    is_estimated: bool


def compute_cost(  # noqa: PLR0917 - all that a cost is made of
    price: Price | None,
    passed: PassedBy,
    seconds: float,
    ratios: TokenRatios,
    limits: CostLimits,
    expected: int = 0,
) -> PricedUsage:
    """The cost of an attempt that may have reached its provider. `expected`: before it was asked,
    in nanos.

    It is never 0 where a price above 0 exists, and never above the limits.
    """
    if price is None:
        return _take_unpriced_cost(passed, limits)
    usage = add_up_cost(price, passed, seconds, ratios, limits.most)
    bound = find_bound(price, passed, seconds, limits, expected)
    return usage if usage.nanos <= bound else replace(usage, nanos=bound, told_nanos=usage.nanos)


def add_up_cost(
    price: Price, passed: PassedBy, seconds: float, ratios: TokenRatios, most: int
) -> PricedUsage:
    """As `compute_cost`, with every word of the provider believed up to `most`."""
    told = passed.told
    if price.is_told and told.cost is not None:
        return _take_told_cost(price, passed, ratios, most)
    tokens = count_tokens(price, passed, ratios)
    return PricedUsage(
        nanos=_limit_cost(price, _add_up(price, tokens, seconds), most),
        model=told.model,
        input_tokens=tokens.input,
        cached_tokens=told.cached_tokens,
        output_tokens=tokens.output,
        price=price.label,
        estimated=tokens.is_estimated,
    )


def find_bound(
    price: Price, passed: PassedBy, seconds: float, limits: CostLimits, expected: int
) -> int:
    """What an attempt is billed at most, whatever its provider tells.

    By the documented count of what passed by: what a provider has taught moves no bound.
    """
    tokens = Tokens(
        _count_documented(price, passed.input_counts, passed.input_characters),
        0,
        _count_documented(price, passed.output_counts, passed.output_characters),
        True,
    )
    likely = max(_add_up(price, tokens, seconds), expected)
    return min(max(int(limits.factor * likely), limits.floor), limits.most)


def estimate_so_far(
    price: Price | None, passed: PassedBy, ratios: TokenRatios, seconds: float = 0.0
) -> int:
    """What the attempt has cost after these seconds, in nanos.

    Some microseconds: it may be asked after each piece.
    """
    told = passed.told
    if price is None:
        return told.cost or 0
    if price.is_told and told.cost is not None:
        return told.cost + _price_rest(price, passed.since_cost, ratios)
    return max(
        _add_up(price, count_tokens(price, passed, ratios), seconds), 0 if price.is_free else 1
    )


def count_tokens(price: Price, passed: PassedBy, ratios: TokenRatios) -> Tokens:
    """What was told, and an estimate of the rest."""
    told, since = passed.told, passed.since_tokens
    input_tokens = (
        told.input_tokens
        if told.input_tokens is not None
        else _estimate_input(price, ratios.input, passed)
    )
    output_tokens = (told.output_tokens or 0) + _estimate_output(price, ratios.output, since)
    is_estimated = told.input_tokens is None or told.output_tokens is None or since.characters > 0
    return Tokens(
        min(input_tokens, MAX_TOKENS),
        told.cached_tokens or 0,
        min(output_tokens, MAX_TOKENS),
        is_estimated,
    )


def _take_unpriced_cost(passed: PassedBy, limits: CostLimits) -> PricedUsage:
    """The provider's own word, up to a bound: no operator has said what it may cost."""
    told, cost = passed.told, passed.told.cost or 0
    return PricedUsage(
        nanos=min(cost, limits.unpriced),
        model=told.model,
        input_tokens=told.input_tokens,
        cached_tokens=told.cached_tokens,
        output_tokens=told.output_tokens,
        estimated=told.cost is None or passed.since_cost.characters > 0,
        told_nanos=min(cost, limits.most) if cost > limits.unpriced else None,
    )


def _take_told_cost(
    price: Price, passed: PassedBy, ratios: TokenRatios, max_nanos: int
) -> PricedUsage:
    """The provider's own word, which the price believes; what came after it at the price."""
    told, since = passed.told, passed.since_cost
    return PricedUsage(
        nanos=min((told.cost or 0) + _price_rest(price, since, ratios), max_nanos),
        model=told.model,
        input_tokens=told.input_tokens,
        cached_tokens=told.cached_tokens,
        output_tokens=told.output_tokens,
        price=price.label,
        estimated=since.characters > 0,
    )


def _price_rest(price: Price, since: OutputMark, ratios: TokenRatios) -> int:
    return (
        _round(_estimate_output(price, ratios.output, since) * price.output)
        if since.characters
        else 0
    )


def _estimate_input(price: Price, ratio: TokenRatio, passed: PassedBy) -> int:
    """The operator's own ratio goes before what is learned."""
    if price.characters_per_token is None:
        return passed.estimate_input(ratio)
    return _divide(passed.input_characters, price.characters_per_token)


def _estimate_output(price: Price, ratio: TokenRatio, text: OutputMark) -> int:
    if price.characters_per_token is None:
        return ratio.estimate(text.counts, text.pieces)
    return _divide(text.characters, price.characters_per_token)


def _count_documented(price: Price, counts: Sequence[int], characters: int) -> int:
    return (
        ceil(weigh(counts))
        if price.characters_per_token is None
        else _divide(characters, price.characters_per_token)
    )


def _divide(characters: int, characters_per_token: str) -> int:
    # upwards: a text has at least one token
    return -(-characters // Fraction(Decimal(characters_per_token)))


def _add_up(price: Price, tokens: Tokens, seconds: float) -> int:
    """In nanos. An amount of a second is one of a million microseconds."""
    fresh = tokens.input - tokens.cached
    parts = fresh * price.input + tokens.cached * price.cached_input + tokens.output * price.output
    return _round(
        parts + price.per_request * MILLION + price.per_second * max(round(seconds * MILLION), 0)
    )


def _round(millionths: int) -> int:
    return (millionths + MILLION // 2) // MILLION


def _limit_cost(price: Price, nanos: int, max_nanos: int) -> int:
    return min(nanos if nanos or price.is_free else 1, max_nanos)
