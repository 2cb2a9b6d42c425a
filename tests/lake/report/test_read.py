"""A report over gold: groups added up exactly, percentiles within 1 %, only what the log names."""

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from math import ceil
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from router.core.errors import Misconfigured
from router.lake.jobs.seal import seal
from router.lake.report import UsageQuery, UsageReport, partials, read_report
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import NOON, Lake, a_body, an_adjustment


def by(report: UsageReport, *names: str) -> dict[tuple[str, ...], dict[str, object]]:
    return {tuple(line.group[name] for name in names): line.to_json() for line in report.lines}


def test_partials_of_several_batches_are_one_line(tmp_path: Path) -> None:
    first, second = Use(latencies=(10, 30), cost="1.000000001"), Use(latencies=(20,), cost="0.1")
    report = read_report(a_warehouse(tmp_path, [first], [second]), UsageQuery())
    (line,) = report.lines
    assert (line.count, line.cost, line.figures["latency_sum_ms"]) == (
        3,
        Decimal("1.100000001"),
        60,
    )
    assert (line.figures["latency_min_ms"], line.figures["latency_max_ms"]) == (10, 30)


def test_each_row_has_the_shape_that_is_promised(tmp_path: Path) -> None:
    report = read_report(a_warehouse(tmp_path, [Use(latencies=(100,), cost="12.5")]), UsageQuery())
    assert report.to_json()["rows"] == [
        {
            "tenant_id": "acme", "provider_id": "openai", "event_type": "chat", "status": "success", "model": "", "day": "2026-11-20",
            "count": 1, "cost": "12.500000000", "latency_p50_ms": 100, "latency_p95_ms": 100, "latency_p99_ms": 100,
            "latency_sum_ms": 100, "latency_min_ms": 100, "latency_max_ms": 100, "adjustment_count": 0, "adjustment_cost": "0.000000000",
            "uncorrelated_count": 0, "uncorrelated_cost": "0.000000000", "input_tokens": 0, "cached_tokens": 0, "output_tokens": 0,
            "estimated_cost": "0.000000000", "correction_count": 0, "correction_cost": "0.000000000",
        }
    ]  # fmt: skip


def test_rows_are_sorted_by_their_group(tmp_path: Path) -> None:
    uses = [
        Use(tenant=tenant, day=day) for tenant in ("b", "a") for day in ("2026-11-21", "2026-11-20")
    ]
    report = read_report(a_warehouse(tmp_path, uses), UsageQuery())
    assert [(line.group["tenant_id"], line.group["day"]) for line in report.lines] == [
        ("a", "2026-11-20"), ("a", "2026-11-21"), ("b", "2026-11-20"), ("b", "2026-11-21"),
    ]  # fmt: skip


def test_costs_are_exact_where_a_float_would_not_be(tmp_path: Path) -> None:
    """UL-7."""
    uses = [Use(cost="99999999999999999999.000000001") for _ in range(3)]
    report = read_report(a_warehouse(tmp_path, uses), UsageQuery())
    assert report.to_json()["totals"]["cost"] == "299999999999999999997.000000003"  # type: ignore[index]


def test_sums_beyond_what_a_column_can_hold_are_exact(tmp_path: Path) -> None:
    """UL-7: Arrow's own sums of such costs are negative."""
    uses = [
        Use(provider=provider, cost="99900000000000000000000000000.000000001", latencies=(2**62,))
        for provider in ("a", "b", "b")
    ]
    report = read_report(a_warehouse(tmp_path, uses), UsageQuery(by=("provider_id",)))
    assert [(line.cost, line.figures["latency_sum_ms"]) for line in report.lines] == [
        (Decimal("99900000000000000000000000000.000000001"), 2**62),
        (Decimal("199800000000000000000000000000.000000002"), 2**63),
    ]
    assert report.totals is not None
    assert report.totals.to_json()["cost"] == "299700000000000000000000000000.000000003"
    assert report.totals.figures["latency_sum_ms"] == 3 * 2**62


def test_any_grouping_adds_up_to_the_same_totals(tmp_path: Path) -> None:
    rng = Random(5)
    uses = [
        Use(tenant=rng.choice("abc"), provider=rng.choice("xy"), status=rng.choice(("success", "error", "cancelled")),
            day=f"2026-11-2{rng.randrange(3)}", latencies=tuple(rng.choices(range(5_000), k=4)), cost=f"{rng.randrange(10**12)}e-9")
        for _ in range(300)
    ]  # fmt: skip
    warehouse = a_warehouse(tmp_path, uses[:100], uses[100:150], uses[150:])
    whole = read_report(warehouse, UsageQuery())
    for wanted in ((), ("tenant_id",), ("day", "provider_id"), ("status", "tenant_id")):
        report = read_report(warehouse, UsageQuery(by=wanted))
        assert report.totals == whole.totals
        assert sum(line.cost for line in report.lines) == whole.totals.cost  # type: ignore[union-attr]
    costs: defaultdict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for use in uses:
        costs[use.tenant, use.day] += Decimal(use.cost)
    grouped = by(read_report(warehouse, UsageQuery(by=("tenant_id", "day"))), "tenant_id", "day")
    assert {key: Decimal(str(row["cost"])) for key, row in grouped.items()} == costs


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_one_percent_of_the_exact_ones(tmp_path: Path, seed: int) -> None:
    """UL-8."""
    rng = Random(seed)
    latencies = sorted(int(rng.lognormvariate(4, 2)) for _ in range(2_000))
    halves = (Use(latencies=tuple(latencies[::2])), Use(latencies=tuple(latencies[1::2])))
    (line,) = read_report(a_warehouse(tmp_path, *([half] for half in halves)), UsageQuery()).lines
    for name, share in (
        ("latency_p50_ms", 0.5),
        ("latency_p95_ms", 0.95),
        ("latency_p99_ms", 0.99),
    ):
        exact = latencies[ceil(2_000 * share) - 1]
        assert line.percentiles[name] == pytest.approx(exact, rel=0.01)


def test_latencies_of_zero_are_zero(tmp_path: Path) -> None:
    (line,) = read_report(a_warehouse(tmp_path, [Use(latencies=(0, 0, 0, 9))]), UsageQuery()).lines
    assert line.percentiles["latency_p50_ms"] == 0
    assert line.figures["latency_min_ms"] == 0


def test_filters_leave_what_was_asked_for(tmp_path: Path) -> None:
    uses = [
        Use(tenant=t, provider=p, day=d)
        for t in "ab"
        for p in "xy"
        for d in ("2026-11-20", "2026-11-21")
    ]
    query = UsageQuery(days=("2026-11-21",), tenants=("a",), providers=("y",))
    (line,) = read_report(a_warehouse(tmp_path, uses), query).lines
    assert dict(line.group) == {
        "tenant_id": "a", "provider_id": "y", "event_type": "chat", "status": "success", "model": "", "day": "2026-11-21",
    }  # fmt: skip


def test_a_cancelled_call_is_not_a_failed_one(tmp_path: Path) -> None:
    uses = [Use(status=status) for status in ("success", "error", "timeout", "cancelled")]
    report = read_report(a_warehouse(tmp_path, uses), UsageQuery(by=("tenant_id",)))
    assert report.lines[0].error_rate == 0.5


def test_a_file_that_no_commit_names_is_not_read(tmp_path: Path) -> None:
    """UL-6."""
    warehouse = a_warehouse(tmp_path, [Use()])
    kept = tmp_path / "gold_day/1/day=2026-11-20/part.parquet"
    pq.write_table(pq.read_table(kept), kept.with_name("of-a-job-that-died.parquet"))
    assert read_report(warehouse, UsageQuery()).totals.count == 1  # type: ignore[union-attr]


def test_as_of_an_earlier_commit_the_report_is_as_it_was(tmp_path: Path) -> None:
    """UL-10."""
    warehouse = a_warehouse(tmp_path, [Use()], [Use(), Use()])
    assert read_report(warehouse, UsageQuery(), as_of_cut=1).totals.count == 1  # type: ignore[union-attr]
    assert read_report(warehouse, UsageQuery()).totals.count == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "query", [UsageQuery(), UsageQuery(tenants=("unknown",)), UsageQuery(days=("1999-01-01",))]
)
def test_nothing_found_is_a_report_without_lines(tmp_path: Path, query: UsageQuery) -> None:
    uses = [] if query == UsageQuery() else [Use()]
    report = read_report(a_warehouse(tmp_path, uses), query)
    assert report.to_json() == {"rows": [], "totals": {}}


def test_what_a_day_got_for_sealed_days_is_told_apart(lake: Lake) -> None:
    """UL-5."""
    lake.take(a_body("r-1", cost="1.0"))
    seal(lake.warehouse, NOON.date(), NOON.date())
    later = NOON + timedelta(days=1)
    lake.take(a_body("r-2", cost="2.0"), a_body("r-3", cost="4.0", at=later), came=later)
    day = str(later.date())
    report = read_report(lake.warehouse, UsageQuery(by=("day",), days=(day,)))
    (line,) = report.lines
    assert (line.count, line.cost) == (2, Decimal(6))
    assert line.corrections == {"correction_count": 1, "correction_cost": Decimal(2)}
    assert report.totals is not None
    assert report.totals.to_json()["correction_cost"] == "2.000000000"


def test_adjustments_are_a_line_of_their_own_and_what_is_marked_costs_nothing(lake: Lake) -> None:
    """UL-39, UL-40."""
    lake.take(
        a_body("r-1", cost="2.0"),
        a_body("r-2", cost="1e9", correlated=False),
        an_adjustment(cost="-0.5"),
    )
    report = read_report(lake.warehouse, UsageQuery(by=("event_type",)))
    lines = {line.group["event_type"]: line for line in report.lines}
    adjusted, chat, totals = lines["usage.adjustment"], lines["chat"], report.totals
    assert (
        adjusted.count,
        adjusted.cost,
        adjusted.figures["adjustment_count"],
        adjusted.error_rate,
    ) == (0, Decimal("-0.5"), 1, 0.0)
    assert (set(adjusted.percentiles.values()), adjusted.figures["latency_min_ms"]) == (
        {None},
        None,
    )
    assert (
        chat.count,
        chat.cost,
        chat.figures["uncorrelated_count"],
        chat.figures["uncorrelated_cost"],
    ) == (1, Decimal(2), 1, Decimal(10**9))
    assert totals is not None
    assert (totals.count, totals.cost, totals.figures["adjustment_cost"]) == (
        1,
        Decimal("1.5"),
        Decimal("-0.5"),
    )


def test_lines_are_made_one_after_the_other(tmp_path: Path) -> None:
    """As Python objects, 150 000 lines took gigabytes."""
    report = read_report(
        a_warehouse(tmp_path, [Use(tenant=f"t-{number:04}") for number in range(1100)]),
        UsageQuery(by=("tenant_id",)),
    )
    lines = report.iterate_lines()
    assert next(lines).group == {"tenant_id": "t-0000"}
    assert [line.group["tenant_id"] for line in lines][-1] == "t-1099"
    assert len(list(report.iterate_lines(3))) == 3


def test_more_names_than_a_code_can_tell_apart_are_refused_and_never_added_up_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes are whole numbers of 64 bits, which wrap: invented names of one tenant moved
    another one's money.
    """
    warehouse = a_warehouse(
        tmp_path,
        [Use(tenant=tenant, model=model) for tenant in "ab" for model in ("large", "small")],
    )
    monkeypatch.setattr(partials, "MAX_CODES", 3)
    with pytest.raises(Misconfigured, match="choose fewer"):
        read_report(warehouse, UsageQuery(by=("tenant_id", "model")))
    assert len(read_report(warehouse, UsageQuery(by=("model",))).lines) == 2
