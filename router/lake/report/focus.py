"""Gold's sums as charges of the FinOps Open Cost and Usage Specification (FOCUS, https://focus.finops.org), version 1.2.

    a tenant's sum of a day  ->  a charge of category Usage; the tenant is the billing account
    an adjustment            ->  of the day that it corrects, in the billing period in which it came; a Correction if that is a later one

Router knows no discounts: all four costs are the cost. It knows one provider of a charge, who provides, publishes and invoices.
Columns of ours have the prefix that the specification asks for, `x_`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.tables.gold import INSTANT
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
        pa.field("x_Status", pa.string(), nullable=False),
    ]
)
_COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
_PROVIDERS = ("InvoiceIssuerName", "ProviderName", "PublisherName")
_QUANTITIES = ("ConsumedQuantity", "PricingQuantity")


def make_charges(sums: pa.Table, currency: str) -> pa.Table:
    """Return a charge for each sum of a day (window_start, the dimensions, corrects_window, count, cost)."""
    day = pc.coalesce(sums["corrects_window"], sums["window_start"])
    billed, charged = _floor(sums["window_start"], "month"), _floor(day, "month")
    constants = {
        "BillingCurrency": currency,
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ConsumedUnit": UNIT,
        "PricingUnit": UNIT,
        "ServiceCategory": SERVICE_CATEGORY,
    }
    columns = {
        **{name: pa.repeat(pa.scalar(value), len(sums)) for name, value in constants.items()},
        **dict.fromkeys(_COSTS, sums["cost"]),
        **dict.fromkeys(_PROVIDERS, sums["provider_id"]),
        **dict.fromkeys(_QUANTITIES, sums["count"].cast(MONEY_TYPE)),
        "BillingAccountId": sums["tenant_id"],
        "BillingAccountName": pa.nulls(len(sums), pa.string()),
        "BillingPeriodStart": billed,
        "BillingPeriodEnd": _add_month(billed),
        "ChargeClass": pc.if_else(pc.not_equal(billed, charged), "Correction", pa.scalar(None, pa.string())),
        "ChargeDescription": pc.binary_join_element_wise(sums["event_type"], sums["provider_id"], sums["status"], ", "),
        "ChargePeriodStart": day,
        "ChargePeriodEnd": pc.add(day, pa.scalar(86_400_000_000, pa.duration("us"))),
        "ServiceName": sums["event_type"],
        "x_Status": sums["status"],
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def _floor(instants: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    return pc.floor_temporal(instants.cast(pa.timestamp("us")), unit=unit).cast(INSTANT)


def _add_month(starts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the starts of the next months: 32 days after a month's start is in the next one."""
    return _floor(pc.add(starts, pa.scalar(32 * 86_400_000_000, pa.duration("us"))), "month")
