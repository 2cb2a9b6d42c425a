"""Events at the edge of what is legal, and beyond: what is beyond lies in quarantine with its
reason, and the tables go on.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from router.contracts.result import MAX_LATENCY_MS
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.daily_writer import OPEN_AT_ONCE, write_days
from router.lake.reconcile import reconcile
from router.lake.report import UsageQuery, read_report
from router.lake.tables.body import BOUNDS
from tests.support.lake_jobs import NOON, Lake, a_body

HONEST = (a_body("h-1"), a_body("h-2"), a_body("h-3"))
BEYOND = {
    "invalid:latency_ms": [
        a_body("p", latency_ms=ms) for ms in (MAX_LATENCY_MS + 1, 2**53 + 1, 2**63 - 1, 2**63, -1)
    ],
    "invalid:timestamp": [
        a_body("p", timestamp=ms) for ms in (0, 1_700_000_000, 253_402_300_799_999, 2**63 - 1)
    ],
    "invalid:cost": [
        a_body("p", cost=cost)
        for cost in ("1000000000.000000001", "9.99e28", "1e300", "-0.01", '"1.5"', "true", "[1]")
    ],
    "invalid:status": [a_body("p", status=status) for status in ("done", "x" * 100_000)],
    "invalid:version": [a_body("p", version=version) for version in ("2", "", "x" * 100_000)],
    "invalid:tenant_id": [a_body("p", tenant_id="x" * 129)],
    "invalid:provider_id": [a_body("p", provider_id="x" * 257)],
    "invalid:event_type": [a_body("p", event_type="x" * 257)],
    "invalid:trace_id": [a_body("p", trace_id="x" * 129)],
    "invalid:assignment_id": [a_body("p", assignment_id="x" * 1_000_000)],
    "invalid:request_id": [a_body("p" * 129)],
}


def in_silver(lake: Lake) -> list[str]:
    return sorted(row["request_id"] for row in lake.rows("silver"))


@pytest.mark.parametrize("reason", BEYOND)
def test_one_event_beyond_a_bound_is_in_quarantine_and_holds_no_table_back(
    lake: Lake, reason: str
) -> None:
    """UL-2."""
    for poison in BEYOND[reason]:
        lake.take(poison)
    lake.take(*BEYOND[reason], *HONEST)
    assert in_silver(lake) == ["h-1", "h-2", "h-3"]
    assert [row["reason"] for row in lake.rows("quarantine")] == [reason] * (
        2 * len(BEYOND[reason])
    )
    assert reconcile(lake.spark, lake.warehouse).is_right


def test_an_event_at_each_bound_counts(lake: Lake) -> None:
    came = NOON + timedelta(seconds=1)
    bodies = [
        a_body("latency", latency_ms=MAX_LATENCY_MS),
        a_body("cost", cost="1000000000.0"),
        a_body("nothing", cost="0.0", latency_ms=0),
        a_body("smallest", cost="5.0e-324"),
        a_body("old", at=came - timedelta(milliseconds=BOUNDS.max_age_ms)),
        a_body("ahead", at=came + timedelta(milliseconds=BOUNDS.max_ahead_ms)),
        a_body(
            "n" * 128,
            tenant_id="t" * 128,
            provider_id="\U0001f600" * 256,
            event_type="e" * 256,
            trace_id="i" * 128,
        ),
    ]
    lake.take(*bodies, came=came)
    assert len(lake.rows("silver")) == len(bodies), lake.rows("quarantine")
    totals = read_report(lake.warehouse, UsageQuery()).totals
    assert totals is not None
    # four cost half a unit
    assert (totals.cost, totals.figures["latency_max_ms"]) == (
        Decimal("1000000002"),
        MAX_LATENCY_MS,
    )
    assert reconcile(lake.spark, lake.warehouse).is_right


def test_events_of_two_thousand_days_do_not_hold_the_tables(lake: Lake) -> None:
    """One result a day, of a worker with a broken clock: no task opens more files than it may."""
    with few_files():
        lake.take(
            *(a_body(f"d-{day}", at=NOON - timedelta(days=day)) for day in range(2000)), *HONEST
        )
    counted = lake.told[0].counts
    assert counted["accepted"] + counted["quarantined"] == 2003
    assert counted["accepted"] <= 3 + BOUNDS.max_age_ms // 86_400_000 + 1
    assert {row["reason"] for row in lake.rows("quarantine")} == {"invalid:timestamp"}
    assert reconcile(lake.spark, lake.warehouse).is_right


def test_rows_of_many_days_are_written_with_few_files_open_and_all_of_them_are_there(
    lake: Lake,
) -> None:
    days = 3 * OPEN_AT_ONCE
    rows = pa.table(
        {
            "seq": range(2 * days),
            "event_id": [f"e-{seq}" for seq in range(2 * days)],
            "first_seq": range(2 * days),
            "time": pa.array(
                [NOON - timedelta(days=seq % days) for seq in range(2 * days)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
    with few_files(OPEN_AT_ONCE + 16):
        files = write_days(rows, lake.warehouse.storage, "duplicates", "job")
    assert sum(file.rows for file in files) == 2 * days
    assert len({file.path for file in files}) == len(files)
    assert {file.day for file in files} == {
        str((NOON - timedelta(days=day)).date()) for day in range(days)
    }


def test_what_was_quarantined_stays_there_when_its_days_are_made_again(lake: Lake) -> None:
    """UL-11: the bound that held when a message came holds for good, whatever the settings say
    later.
    """
    lake.take(*HONEST, a_body("dear", cost="2000000000.0"))
    assert Backfill(lake.spark, lake.warehouse, NOON.date(), NOON.date()).compare().is_none


@contextmanager
def few_files(more: int = 64) -> Iterator[None]:
    """This process may open only so many files more."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + more, most)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
