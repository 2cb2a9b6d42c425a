"""Gold's sums as charges of the FinOps Open Cost and Usage Specification (FOCUS,
https://focus.finops.org), version 1.2.

    a tenant's sum of a day  ->  a charge of category Usage; the tenant is the billing account
    adjustments of a day     ->  a charge of category Adjustment, once, of either sign, and of no
                                 quantity
    events of a sealed day   ->  charges of that day, in the billing period in which they came;
                                 Corrections if that is a later one
    uncorrelated events      ->  no charge: they are in no cost

An adjustment is no Credit, which a provider grants; what it corrects is no promotion.

Router knows no discounts: all four costs are the cost. It knows one provider of a charge, who
provides, publishes and invoices. Columns of ours have the prefix that the specification asks for,
`x_`. The model is one of them and no SkuId: that names an entry of a list that the provider
publishes, and may not be null in a charge of usage.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from router.contracts.request import ADJUSTMENT_TYPE
from router.lake.tables.gold import INSTANT
from router.lake.tables.gold_tables import NO_MODEL
from router.lake.tables.wide import MONEY_TYPE

UNIT = "Requests"
SERVICE_CATEGORY = "AI and Machine Learning"
SCHEMA = pa.schema(
    [
        pa.field("BilledCost", MONEY_TYPE, nullable=False),
        pa.field("BillingAccountId", pa.string(), nullable=False),
        pa.field("BillingAccountName", pa.string()),
        pa.field("BillingCurrency", pa.string(), nullable=False),
        pa.field("BillingPeriodEnd", INSTANT, nullable=False),
        pa.field("BillingPeriodStart", INSTANT, nullable=False),
        pa.field("ChargeCategory", pa.string(), nullable=False),
        pa.field("ChargeClass", pa.string()),
        pa.field("ChargeDescription", pa.string()),
        pa.field("ChargeFrequency", pa.string(), nullable=False),
        pa.field("ChargePeriodEnd", INSTANT, nullable=False),
        pa.field("ChargePeriodStart", INSTANT, nullable=False),
        pa.field("ConsumedQuantity", MONEY_TYPE),
        pa.field("ConsumedUnit", pa.string()),
        pa.field("ContractedCost", MONEY_TYPE, nullable=False),
        pa.field("EffectiveCost", MONEY_TYPE, nullable=False),
        pa.field("InvoiceIssuerName", pa.string(), nullable=False),
        pa.field("ListCost", MONEY_TYPE, nullable=False),
        pa.field("PricingQuantity", MONEY_TYPE),
        pa.field("PricingUnit", pa.string()),
        pa.field("ProviderName", pa.string(), nullable=False),
        pa.field("PublisherName", pa.string(), nullable=False),
        pa.field("ServiceCategory", pa.string(), nullable=False),
        pa.field("ServiceName", pa.string(), nullable=False),
        pa.field("x_CachedTokens", pa.int64()),
        pa.field("x_EstimatedCost", MONEY_TYPE),
        pa.field("x_InputTokens", pa.int64()),
        pa.field("x_Model", pa.string()),
        pa.field("x_OutputTokens", pa.int64()),
        pa.field("x_Status", pa.string(), nullable=False),
    ]
)
_COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
_PROVIDERS = ("InvoiceIssuerName", "ProviderName", "PublisherName")
_QUANTITIES = ("ConsumedQuantity", "PricingQuantity")
_UNITS = ("ConsumedUnit", "PricingUnit")
_OUR_FIGURES = {
    "x_CachedTokens": "cached_tokens",
    "x_EstimatedCost": "estimated_cost",
    "x_InputTokens": "input_tokens",
    "x_OutputTokens": "output_tokens",
}


def make_charges(sums: pa.Table, currency: str) -> pa.Table:
    """Return a charge for each sum of a day (window_start, the dimensions, corrects_window,
    figures) that has money or a request.
    """
    sums = sums.filter(_is_charged(sums))
    is_adjustment = pc.equal(sums["event_type"], ADJUSTMENT_TYPE)
    day = pc.coalesce(sums["corrects_window"], sums["window_start"])
    billed, charged = _floor(sums["window_start"], "month"), _floor(day, "month")
    constants = {"BillingCurrency": currency, "ServiceCategory": SERVICE_CATEGORY}
    columns = {
        **{name: pa.repeat(pa.scalar(value), len(sums)) for name, value in constants.items()},
        **dict.fromkeys(_COSTS, sums["cost"]),
        **dict.fromkeys(_PROVIDERS, sums["provider_id"]),
        **dict.fromkeys(
            _QUANTITIES,
            pc.if_else(is_adjustment, pa.scalar(None, MONEY_TYPE), sums["count"].cast(MONEY_TYPE)),
        ),
        **dict.fromkeys(_UNITS, pc.if_else(is_adjustment, pa.scalar(None, pa.string()), UNIT)),
        **{name: sums[figure] for name, figure in _OUR_FIGURES.items()},
        "ChargeCategory": pc.if_else(is_adjustment, "Adjustment", "Usage"),
        "ChargeFrequency": pc.if_else(is_adjustment, "One-Time", "Usage-Based"),
        "BillingAccountId": sums["tenant_id"],
        "BillingAccountName": pa.nulls(len(sums), pa.string()),
        "BillingPeriodStart": billed,
        "BillingPeriodEnd": _add_month(billed),
        "ChargeClass": pc.if_else(
            pc.not_equal(billed, charged), "Correction", pa.scalar(None, pa.string())
        ),
        "ChargeDescription": pc.binary_join_element_wise(
            sums["event_type"], sums["provider_id"], sums["status"], ", "
        ),
        "ChargePeriodStart": day,
        "ChargePeriodEnd": pc.add(day, pa.scalar(86_400_000_000, pa.duration("us"))),
        "ServiceName": sums["event_type"],
        "x_Model": pc.if_else(
            pc.equal(sums["model"], NO_MODEL), pa.scalar(None, pa.string()), sums["model"]
        ),
        "x_Status": sums["status"],
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def _is_charged(sums: pa.Table) -> pa.ChunkedArray:
    """Whether a sum has an outcome or an adjustment; one of uncorrelated events alone has neither."""
    return pc.or_(
        pc.greater(sums["count"], 0), pc.greater(pc.fill_null(sums["adjustment_count"], 0), 0)
    )


def _floor(instants: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    return pc.floor_temporal(instants.cast(pa.timestamp("us")), unit=unit).cast(INSTANT)


def _add_month(starts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the starts of the next months: 32 days after a month's start is in the next one."""
    return _floor(pc.add(starts, pa.scalar(32 * 86_400_000_000, pa.duration("us"))), "month")
