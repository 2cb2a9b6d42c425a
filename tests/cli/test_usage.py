"""`router usage`: what reports and reconciliations print, and how they end."""

import csv
import io
import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from tests.lake.without_jvm import WithoutJvm
from tests.support.cli import call_command
from tests.support.lake_accounts import an_account, body, tables_of
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import Lake, a_body, an_adjustment

ROW = (
    "tenant_id", "provider_id", "event_type", "status", "model", "day", "count", "cost", "latency_p50_ms", "latency_p95_ms",
    "latency_p99_ms", "latency_sum_ms", "latency_min_ms", "latency_max_ms", "adjustment_count", "adjustment_cost", "uncorrelated_count",
    "uncorrelated_cost", "input_tokens", "cached_tokens", "output_tokens", "estimated_cost", "correction_count", "correction_cost",
)  # fmt: skip


@pytest.fixture
def gold(tmp_path: Path) -> str:
    uses = [
        Use(tenant=t, status=s, cost="1.000000001")
        for t in ("acme", "zed")
        for s in ("success", "error")
    ]
    a_warehouse(tmp_path, uses)
    return str(tmp_path)


def test_json_has_every_dimension_and_the_totals(gold: str) -> None:
    told = call_command("usage", "report", "--warehouse", gold, "--json")
    assert told.status == 0
    assert [tuple(row) for row in told.json["rows"]] == [ROW] * 4
    assert (told.json["totals"]["count"], told.json["totals"]["cost"]) == (4, "4.000000004")


def test_csv_has_the_same_rows(gold: str) -> None:
    rows = list(
        csv.DictReader(
            io.StringIO(call_command("usage", "report", "--warehouse", gold, "--csv").out)
        )
    )
    assert [tuple(row) for row in rows] == [(*ROW, "currency")] * 4
    assert {row["currency"] for row in rows} == {"USD"}
    assert rows[0]["cost"] == "1.000000001"


def test_the_table_has_totals_and_error_rates(gold: str) -> None:
    told = call_command("usage", "report", "--warehouse", gold, "--by", "tenant")
    lines = [line.split() for line in told.out.splitlines() if line.strip()]
    assert lines[-1][:4] == ["all", "4", "4.000000004", "50.00%"]
    assert [line[0] for line in lines[2:-1] if line[0].isalpha()] == ["acme", "zed"]


def test_the_table_tells_adjustments_and_what_is_not_billed_where_there_are_some(
    tmp_path: Path,
) -> None:
    lake = Lake(cast(SparkSession, WithoutJvm()), tmp_path)
    lake.take(
        a_body(cost="2.0", input_tokens=1200),
        an_adjustment(cost="-0.5"),
        a_body("r-2", correlated=False, cost="9.0"),
    )
    told = call_command(
        "usage",
        "report",
        "--warehouse",
        lake.warehouse.location,
        "--by",
        "type",
        environ={"COLUMNS": "200"},
    )
    lines = [" ".join(line.split()) for line in told.out.splitlines() if line.strip()]
    assert "all 1 1.500000000 -0.500000000 9.000000000 1,200 0.00%" in " ".join(lines)
    assert "usage.adjustment 0 -0.500000000 -0.500000000 0.000000000 0 0.00%" in lines
    assert [line for line in lines if line.startswith("not billed: ")]
    row = json.loads(
        call_command(
            "usage", "report", "--warehouse", lake.warehouse.location, "--by", "type", "--json"
        ).out
    )["rows"][1]
    assert (row["event_type"], row["latency_p95_ms"], row["latency_min_ms"]) == (
        "usage.adjustment",
        None,
        None,
    )


def test_the_currency_is_a_setting(gold: str) -> None:
    told = call_command(
        "usage", "report", "--warehouse", gold, environ={"ROUTER_USAGE__CURRENCY": "EUR"}
    )
    assert "cost EUR" in " ".join(told.out.split())
    refused = call_command(
        "usage", "report", "--warehouse", gold, environ={"ROUTER_USAGE__CURRENCY": "euro"}
    )
    assert refused.status == 2
    assert "usage.currency" in refused.err


def test_what_all_lines_share_is_told_once_above_the_table(gold: str) -> None:
    shared, heads, *_ = (
        line.split()
        for line in call_command("usage", "report", "--warehouse", gold).out.splitlines()
        if line.strip()
    )
    assert shared[::2] == ["day", "provider"]
    assert heads[:2] == ["tenant", "events"]


def test_a_page_is_written_beside_the_table(gold: str, tmp_path: Path) -> None:
    page = tmp_path / "usage.html"
    assert (
        call_command(
            "usage", "report", "--warehouse", gold, "--by", "status", "--html", str(page)
        ).status
        == 0
    )
    assert page.read_text().startswith("<!doctype html>")
    assert "as of cut 1" in page.read_text()


def test_an_export_is_written_and_told(gold: str, tmp_path: Path) -> None:
    file = tmp_path / "usage.csv"
    wanted = ("--warehouse", gold, "--output", str(file), "--json")
    told = call_command("usage", "export", *wanted, "--period", "2026-11")
    assert (told.status, told.json["rows"], told.json["currency"]) == (0, 4, "USD")
    assert len(file.read_text().splitlines()) == 5
    assert call_command("usage", "export", *wanted, "--period", "2020-11").status == 1
    assert call_command("usage", "export", *wanted, "--period", "soon").status == 2


def test_no_usage_ends_with_one(gold: str) -> None:
    assert call_command("usage", "report", "--warehouse", gold, "--tenant", "unknown").status == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--warehouse", "/nowhere/at/all"), "usage ingest"),
        (("--by", "colour"), "--by"),
        (("--day", "today"), "YYYY-MM-DD"),
    ],
)
def test_wrong_use_says_what_to_do(gold: str, arguments: tuple[str, ...], complaint: str) -> None:
    ended = call_command("usage", "report", "--warehouse", gold, *arguments)
    assert ended.status == 2
    assert complaint in ended.err


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark's tasks do is done here."""
    monkeypatch.setattr("router.lake.commands.command.create_session", lambda _: WithoutJvm())


@pytest.mark.usefixtures("in_process")
def test_reconcile_ends_with_nothing_when_it_all_agrees(tmp_path: Path) -> None:
    an_account(tmp_path, tables_of([body(1), body(2)], ["0.25", "0.25"]))
    ended = call_command("usage", "reconcile", "--warehouse", str(tmp_path), "--offline", "--json")
    assert (ended.status, ended.json["agrees"]) == (0, True)


@pytest.mark.usefixtures("in_process")
def test_reconcile_ends_with_one_and_names_what_differs(tmp_path: Path) -> None:
    tables = tables_of([body(1), body(2), body(3)], ["0.25", "0.5", "0.25"])
    an_account(tmp_path, tables)
    ended = call_command("usage", "reconcile", "--warehouse", str(tmp_path), "--offline")
    assert ended.status == 1
    assert "cost: bronze = silver: 2" in ended.out


@pytest.mark.usefixtures("in_process")
def test_an_audit_ends_with_one_and_names_what_counts_twice(tmp_path: Path) -> None:
    tables = tables_of([body(1), body(2), body(3)], ["0.25", "0.5", "0.25"])
    an_account(tmp_path / "right", tables)
    ended = call_command("usage", "audit", "--warehouse", str(tmp_path / "right"), "--json")
    assert (ended.status, ended.json["counted_too_often"]) == (0, 0)
    tables["silver"][1] |= {
        name: tables["silver"][0][name] for name in ("event_id", "id_high", "id_low")
    }
    an_account(tmp_path / "wrong", tables)
    ended = call_command("usage", "audit", "--warehouse", str(tmp_path / "wrong"))
    assert ended.status == 1
    assert f"{tables['silver'][0]['event_id']}" in ended.out
    assert "0.500000000" in ended.out


def test_generate_fills_the_stream_and_tells_the_truth(nats_url: str, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    ended = call_command(
        "usage",
        "generate",
        "--events",
        "500",
        "--seed",
        "9",
        "--truth",
        str(truth),
        "--nats-url",
        nats_url,
        "--json",
    )
    assert (ended.status, ended.json["last_seq"], ended.json["duplicates"]) == (0, 500, 10)
    assert json.loads(truth.read_bytes())["accepted"] == ended.json["accepted"]


@pytest.fixture
def filled(tmp_path: Path) -> Lake:
    """Two events of one tenant, one of another."""
    lake = Lake(cast(SparkSession, WithoutJvm()), tmp_path / "filled")
    lake.take(
        *(
            a_body(f"r-{number}", tenant_id=tenant)
            for number, tenant in enumerate(("acme", "acme", "zed"))
        )
    )
    return lake


def test_erase_asks_first_and_tells_what_went_and_when_the_bytes_do(filled: Lake) -> None:
    at = ("--tenant", "acme", "--warehouse", str(filled.home))
    counted = call_command("usage", "erase", *at, "--dry-run", "--json")
    assert (counted.status, counted.json["rows"]["bronze"], counted.json["gone_after"]) == (
        1,
        2,
        None,
    )
    refused = call_command("usage", "erase", *at, given=b"n\n")
    assert refused.status == 1
    assert "Erase 2 messages of acme" in refused.err
    done = call_command("usage", "erase", *at, "--yes")
    assert done.status == 0
    assert "vacuum --older-than 1" in done.out
    again = call_command("usage", "erase", *at, "--yes", "--json")
    assert (again.status, set(again.json["rows"].values()), set(again.json["left"].values())) == (
        0,
        {0},
        {0},
    )
    assert again.json["gone_after"] is not None
    assert (
        call_command("usage", "report", "--warehouse", str(filled.home), "--tenant", "acme").status
        == 1
    )


FORMULAS = (
    '=HYPERLINK("http://evil")',
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    "\ufeff=1+1",
    "\uff1d1+1",
)
STEERING = "\x1b[31mred\x1b]0;title\x07\u202egnp.exe\u2066\x9b2J\x7f\x00"
RAW = set("\x1b\x07\u202e\u2066\x9b\x7f\x00")


def test_no_cell_of_the_csv_is_a_formula_or_steers_a_terminal(tmp_path: Path) -> None:
    a_warehouse(
        tmp_path,
        [Use(provider=name, type=name) for name in (*FORMULAS, STEERING, "plain-name_1.2:x")],
    )
    out = call_command("usage", "report", "--warehouse", str(tmp_path), "--csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    told = [row[name] for row in rows for name in ("provider_id", "event_type")]
    assert len(rows) == len(FORMULAS) + 2
    assert not [
        cell for cell in told if cell.lstrip()[:1] in set("=+-@\uff1d") or not cell.isprintable()
    ]
    assert '\'=HYPERLINK("http://evil")' in told
    assert "plain-name_1.2:x" in told
    assert not RAW & set(out)


@pytest.mark.usefixtures("in_process")
def test_no_name_steers_a_terminal_by_a_table_a_line_or_a_reconciliation(tmp_path: Path) -> None:
    uses = [Use(tenant=STEERING, provider=STEERING, type=kind) for kind in ("a", "b")]
    a_warehouse(tmp_path / "gold", uses)
    for by in ("tenant,provider,type", "tenant"):
        ended = call_command("usage", "report", "--warehouse", str(tmp_path / "gold"), "--by", by)
        assert "red" in ended.out
        assert not RAW & set(ended.out + ended.err)
    tables = tables_of([body(1, tenant_id=STEERING)], ["0.25"])
    tables["gold_day"] = []
    an_account(tmp_path / "account", tables)
    ended = call_command(
        "usage", "reconcile", "--warehouse", str(tmp_path / "account"), "--offline"
    )
    assert ended.status == 1
    assert "gnp.exe" in ended.out
    assert not RAW & set(ended.out + ended.err)


def test_an_error_that_quotes_a_name_steers_no_terminal(tmp_path: Path) -> None:
    ended = call_command(
        "usage", "report", "--warehouse", str(tmp_path / STEERING.replace("\x00", ""))
    )
    assert ended.status == 2
    assert "gnp.exe" in ended.err
    assert not RAW & set(ended.err)


def test_retention_keeps_what_may_come_again(filled: Lake) -> None:
    at = ("--warehouse", str(filled.home))
    for keep in ("30d", "400", "-1d", "99999d", "４００d"):
        refused = call_command("usage", "retention", "--keep", keep, *at)
        assert refused.status == 2
        assert "--keep" in refused.err
    told = call_command("usage", "retention", "--keep", "400d", *at, "--json")
    assert (told.status, told.json["days"], told.json["gone_after"]) == (0, [], None)
