"""Prices of providers, and what an attempt costs by them (docs/reference/prices.md). Pure.

Price, parse_prices     the document; `PriceList` has those of one provider and model
PriceTable              which price is in force
PassedBy, TextCount     what passed by of an attempt, and what its provider told
TokenRatios             how many tokens a text has: documented, or learned
compute_cost            what it costs
Pricing                 all of that, joined, for the process
"""

from router.budgets.model.prices.cost import CostLimits, PricedUsage, compute_cost, estimate_so_far
from router.budgets.model.prices.passed_by import PassedBy
from router.budgets.model.prices.price import (
    Price,
    PriceError,
    PriceList,
    PriceTable,
    parse_price,
    parse_prices,
    price_document,
)
from router.budgets.model.prices.pricing import PricedAttempt, Pricing
from router.budgets.model.prices.ratio_sums import RatioSums, TextCount
from router.budgets.model.prices.ratios import LearnedRatios, TokenRatio, TokenRatios

__all__ = [
    "CostLimits",
    "LearnedRatios",
    "PassedBy",
    "Price",
    "PriceError",
    "PriceList",
    "PriceTable",
    "PricedAttempt",
    "PricedUsage",
    "Pricing",
    "RatioSums",
    "TextCount",
    "TokenRatio",
    "TokenRatios",
    "compute_cost",
    "estimate_so_far",
    "parse_price",
    "parse_prices",
    "price_document",
]
