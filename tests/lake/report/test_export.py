"""An export has exactly what gold has, in the columns that were promised."""

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from router.core.errors import Misconfigured
from router.lake.jobs.seal import seal
from router.lake.report.export import SCHEMA, Period, export, parse_period
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import NOON, Lake, a_body, an_adjustment

# FOCUS 1.2: the mandatory columns, and the others that we write: type, whether null is allowed, the
# values that are.
SPECIFICATION = {
    "BilledCost": ("decimal", False, None),
    "BillingAccountId": ("string", False, None),
    "BillingAccountName": ("string", True, None),
    "BillingCurrency": ("string", False, None),
    "BillingPeriodEnd": ("datetime", False, None),
    "BillingPeriodStart": ("datetime", False, None),
    "ChargeCategory": ("string", False, {"Usage", "Purchase", "Tax", "Credit", "Adjustment"}),
    "ChargeClass": ("string", True, {"Correction"}),
    "ChargeDescription": ("string", True, None),
    "ChargeFrequency": ("string", False, {"One-Time", "Recurring", "Usage-Based"}),
    "ChargePeriodEnd": ("datetime", False, None),
    "ChargePeriodStart": ("datetime", False, None),
    "ConsumedQuantity": ("decimal", True, None),
    "ConsumedUnit": ("string", True, None),
    "ContractedCost": ("decimal", False, None),
    "EffectiveCost": ("decimal", False, None),
    "InvoiceIssuerName": ("string", False, None),
    "ListCost": ("decimal", False, None),
    "PricingQuantity": ("decimal", True, None),
    "PricingUnit": ("string", True, None),
    "ProviderName": ("string", False, None),
    "PublisherName": ("string", False, None),
    "ServiceCategory": (
        "string",
        False,
        {
            "AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools", "Multicloud",
            "Identity", "Integration", "Internet of Things", "Management and Governance", "Media", "Migration", "Mobile", "Networking",
            "Security", "Storage", "Web", "Other",
        },
    ),
    "ServiceName": ("string", False, None),
}  # fmt: skip
IS_TYPE = {
    "decimal": pa.types.is_decimal,
    "string": pa.types.is_string,
    "datetime": pa.types.is_timestamp,
}
NOVEMBER = parse_period("2026-11")


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_column_of_focus_is_there_with_its_type_and_nullability(tmp_path: Path) -> None:
    """UL-37."""
    file = tmp_path / "usage.parquet"
    export(
        a_warehouse(tmp_path / "w", [Use(), Use(tenant="zed")]),
        NOVEMBER,
        "focus",
        file,
        currency="EUR",
    )
    table = pq.read_table(file)
    assert {
        name for name in table.column_names if not name.startswith("x_")
    } == SPECIFICATION.keys()
    for name, (kind, allows_null, values) in SPECIFICATION.items():
        field, column = table.schema.field(name), table[name]
        assert IS_TYPE[kind](field.type), name
        assert field.nullable == allows_null == SCHEMA.field(name).nullable, name
        assert allows_null or not column.null_count, name
        assert values is None or set(column.drop_null().to_pylist()) <= values, name


def test_a_charge_is_a_tenants_sum_of_a_day(tmp_path: Path) -> None:
    file = tmp_path / "usage.csv"
    uses = [Use(latencies=(1, 2), cost="1.5"), Use(cost="0.000000001")]
    done = export(
        a_warehouse(tmp_path / "w", uses[:1], uses[1:]), NOVEMBER, "focus", file, currency="EUR"
    )
    (charge,) = read_csv(file)
    assert (done.rows, done.days, done.cut) == (1, 1, 2)
    assert {
        charge[name] for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
    } == {"1.500000001"}
    assert (charge["BillingCurrency"], charge["BillingAccountId"], charge["ProviderName"]) == (
        "EUR",
        "acme",
        "openai",
    )
    assert (charge["ConsumedQuantity"], charge["ConsumedUnit"]) == ("3.000000000", "Requests")
    assert (charge["ChargePeriodStart"], charge["ChargePeriodEnd"]) == (
        "2026-11-20T00:00:00Z",
        "2026-11-21T00:00:00Z",
    )
    assert (charge["BillingPeriodStart"], charge["BillingPeriodEnd"]) == (
        "2026-11-01T00:00:00Z",
        "2026-12-01T00:00:00Z",
    )
    assert (charge["ChargeCategory"], charge["ChargeClass"], charge["x_Status"]) == (
        "Usage",
        "",
        "success",
    )


def test_an_adjustment_is_a_charge_of_its_own_of_either_sign_and_of_no_quantity(
    lake: Lake, tmp_path: Path
) -> None:
    """UL-37, UL-39."""
    lake.take(a_body(cost="2.0", input_tokens=10, cached_tokens=4, output_tokens=3, estimated=True))
    lake.take(an_adjustment(cost="-0.5"), an_adjustment("adjust-2", cost="0.25", tenant_id="zed"))
    file = tmp_path / "usage.parquet"
    export(lake.warehouse, Period(NOON.date(), NOON.date()), "focus", file, currency="USD")
    charges = {
        (row["BillingAccountId"], row["ServiceName"]): row
        for row in pq.read_table(file).to_pylist()
    }
    usage, lower, higher = (
        charges["acme", "chat"],
        charges["acme", "usage.adjustment"],
        charges["zed", "usage.adjustment"],
    )
    assert [one["ChargeCategory"] for one in (usage, lower, higher)] == [
        "Usage",
        "Adjustment",
        "Adjustment",
    ]
    assert [one["ChargeFrequency"] for one in (usage, lower, higher)] == [
        "Usage-Based",
        "One-Time",
        "One-Time",
    ]
    for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"):
        assert [one[name] for one in (usage, lower, higher)] == [
            Decimal(2),
            Decimal("-0.5"),
            Decimal("0.25"),
        ]
    for name in ("ConsumedQuantity", "ConsumedUnit", "PricingQuantity", "PricingUnit"):
        assert [one[name] for one in (lower, higher)] == [None, None]
    assert [
        usage[f"x_{name}"]
        for name in ("InputTokens", "CachedTokens", "OutputTokens", "EstimatedCost")
    ] == [10, 4, 3, Decimal(2)]


@pytest.mark.parametrize("form", ["focus", "parquet"])
def test_what_is_marked_is_billed_nowhere(lake: Lake, tmp_path: Path, form: str) -> None:
    """UL-40."""
    lake.take(
        a_body(cost="2.0"),
        a_body("r-2", cost="1e9", correlated=False),
        a_body("r-3", cost="7.0", tenant_id="zed", correlated=False),
    )
    file = tmp_path / "usage.parquet"
    export(lake.warehouse, Period(NOON.date(), NOON.date()), form, file, currency="USD")  # type: ignore[arg-type]
    rows = pq.read_table(file).to_pylist()
    if form == "focus":
        assert [
            (row["BillingAccountId"], row["BilledCost"], row["ConsumedQuantity"]) for row in rows
        ] == [("acme", Decimal(2), Decimal(1))]
        return
    assert [(row["tenant_id"], row["cost"], row["uncorrelated_cost"]) for row in rows] == [
        ("acme", Decimal(2), Decimal(10**9)), ("zed", Decimal(0), Decimal(7)),
    ]  # fmt: skip


@pytest.mark.parametrize("days", [1, 32])
def test_an_event_of_a_sealed_day_is_of_that_day_in_the_period_in_which_it_came(
    lake: Lake, tmp_path: Path, days: int
) -> None:
    """32 days later it is another month, so the one before was billed."""
    lake.take(a_body("r-1", cost="1.0"))
    seal(lake.warehouse, NOON.date(), NOON.date())
    later = NOON + timedelta(days=days)
    lake.take(a_body("r-2", cost="2.0"), came=later)
    file = tmp_path / "usage.parquet"
    export(lake.warehouse, Period(later.date(), later.date()), "focus", file, currency="USD")
    (charge,) = pq.read_table(file).to_pylist()
    assert (charge["ChargePeriodStart"].date(), charge["BilledCost"]) == (NOON.date(), Decimal(2))
    assert charge["BillingPeriodStart"] == datetime(later.year, later.month, 1, tzinfo=UTC)
    assert charge["ChargeClass"] == ("Correction" if later.month != NOON.month else None)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_plain_export_has_golds_own_columns_and_the_currency(tmp_path: Path, form: str) -> None:
    file = tmp_path / "usage"
    export(a_warehouse(tmp_path / "w", [Use(cost="0.5")]), NOVEMBER, form, file, currency="USD")  # type: ignore[arg-type]
    (row,) = read_csv(file) if form == "csv" else pq.read_table(file).to_pylist()
    assert (row["tenant_id"], str(row["cost"]), row["currency"]) == ("acme", "0.500000000", "USD")


@pytest.mark.parametrize("form", ["csv", "focus"])
def test_no_cell_is_a_formula(tmp_path: Path, form: str) -> None:
    file = tmp_path / "usage.csv"
    names = ("=1+1", "+1", "-1", "@A1", "\t=1", "\uff1d1")
    export(
        a_warehouse(tmp_path / "w", [Use(tenant=name, provider=name, type=name) for name in names]),
        NOVEMBER,
        form,
        file,
        currency="USD",
    )  # type: ignore[arg-type]
    cells = [
        cell
        for row in read_csv(file)
        for name, cell in row.items()
        if name.endswith(("_id", "_type", "Id", "Name", "Description"))
    ]
    assert not [cell for cell in cells if cell.lstrip()[:1] in set("=+-@\uff1d")]


def test_only_the_period_is_exported_as_of_the_cut(tmp_path: Path) -> None:
    warehouse = a_warehouse(
        tmp_path / "w",
        [Use(day="2026-10-31"), Use(day="2026-11-01")],
        [Use(day="2026-11-01"), Use(day="2026-11-02")],
    )
    file = tmp_path / "usage.parquet"
    assert (
        export(
            warehouse, parse_period("2026-11-01..2026-11-02"), "parquet", file, currency="USD"
        ).rows
        == 2
    )
    assert export(warehouse, NOVEMBER, "parquet", file, currency="USD", as_of_cut=1).rows == 1
    assert pq.read_table(file)["count"].to_pylist() == [1]
    with pytest.raises(Misconfigured, match="no cut 9"):
        export(warehouse, NOVEMBER, "parquet", file, currency="USD", as_of_cut=9)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2026-10-05", "2026-10-05", "2026-10-05"),
        ("2026-01-31..2026-03-01", "2026-01-31", "2026-03-01"),
    ],
)
def test_a_period_is_a_month_a_day_or_days(text: str, first: str, last: str) -> None:
    assert tuple(map(str, (parse_period(text).first, parse_period(text).last))) == (first, last)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026",
        "2026-13",
        "2026-02-30",
        "2026-03-02..2026-03-01",
        "0001-01-01..9999-01-01",
        "\uff12026-10",
        "2026-10\n",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="--period"):
        parse_period(text)


def test_a_file_appears_only_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse, file = a_warehouse(tmp_path / "w", [Use()]), tmp_path / "usage.csv"
    file.write_text("of before")

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("router.lake.report.export._sum_day", fail)
    with pytest.raises(MemoryError):
        export(warehouse, NOVEMBER, "csv", file, currency="USD")
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["usage.csv"]
    assert file.read_text() == "of before"
