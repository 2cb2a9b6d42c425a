"""Hostile usage events through the tables, a micro-batch at a time, as an ingest would take them;
no JVM.

Whatever a message is, its batch is committed, and the message is in exactly one of silver,
duplicates, conflicts and quarantine.
"""

import gc
import random
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple, cast

import orjson
from pyspark.sql import SparkSession

from router.contracts.decision import ADJUSTMENT_TYPE
from router.contracts.usage import derive_identity
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.maintenance import compact
from router.lake.reconcile import reconcile
from router.lake.report import ReportLine, UsageQuery, read_report
from router.lake.report.page import PAGE_COLUMNS, render_page
from router.lake.report.read import read_parts
from tests.lake.without_jvm import IN_PROCESS, WithoutJvm
from tests.rigs.fuzz.hostile import DAY_MS, NUMBERS, Rng, hostile_json, name, written
from tests.support.lake_jobs import NOON, Lake, a_body

LAKE = "usage event, through the tables"
BATCH = 5_000
FIELDS = (
    "tenant_id",
    "provider_id",
    "event_type",
    "status",
    "latency_ms",
    "cost",
    "timestamp",
    "trace_id",
    "assignment_id",
    "request_id",
    "version",
    "event_id",
    "model",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "price",
    "estimated",
    "told_cost",
    "told_provider_id",
    "adjustment",
    "adjusts",
    "budget",
    "reason",
    "correlated",
)
LATENCIES = (0, 1, 2, 30 * DAY_MS - 1, 30 * DAY_MS)
COSTS = (
    "0.0",
    "0",
    "1e9",
    "1000000000.0",
    "0.0000000005",
    "5.0e-324",
    "1E+2",
    "-0.0",
    "0." + "9" * 60,
    "1e-41",
    "0.30000000000000004",
)
TENANTS = ("acme", "zed", "t" * 128, "\U0001f600" * 128, "=1+1", "\x1b[2J\u202e")
BEYOND = (
    30 * DAY_MS + 1,
    2**53 + 1,
    10**9 + 1,
    10**15,
    orjson.Fragment("1000000000.000000001"),
    orjson.Fragment('"1.5"'),
)
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"correlated": False},
    {
        "estimated": True,
        "input_tokens": 10**12,
        "cached_tokens": 0,
        "output_tokens": 1,
        "model": "m" * 256,
        "price": "p#1",
    },
    {"told_cost": 1e9, "told_provider_id": "p" * 256},
    {"adjustment": "held", "adjusts": "usage:" + "0" * 32},
    {"adjustment": "budget", "budget": "m" * 256},
)
SIGNED = ("-1e9", "-0.000000001", "-0.0000000005", "-0.0")
PROVIDERS = ("openai", "p" * 256, "a\x00b", "\n", '"', "\\")


class Taken(NamedTuple):
    quarantined: int
    accepted: int
    slowest_ms: float  # of a batch, an event
    grown_mib: float


def take_hostile_events(inputs: int, seed: int, batch: int = BATCH) -> Taken:
    """Raises whatever stopped an ingest, and AssertionError for tables that do not add up."""
    from tests.rigs.fuzz.hostile_run import WARM, resident_mib

    rng, home = random.Random(f"lake:{seed}"), Path(tempfile.mkdtemp(prefix="hostile-lake-"))
    lake = Lake(cast(SparkSession, WithoutJvm()), home)
    warm_mib, slowest, done = 0.0, 0.0, 0
    try:
        while done < inputs:
            bodies = [an_event(rng, done + number) for number in range(min(batch, inputs - done))]
            started = thread_time()
            lake.take(*bodies, came=NOON + timedelta(seconds=done))
            slowest = max(slowest, (thread_time() - started) / len(bodies))
            _check_batch(lake, len(bodies))
            done += len(bodies)
            lake.told.clear()
            warm_mib = warm_mib or (resident_mib() if done >= inputs * WARM else 0.0)
        grown = resident_mib() - warm_mib
        counts = _check_all(lake, inputs)
        gc.collect()
        return Taken(counts["quarantined"], counts["accepted"], slowest * 1000, grown)
    finally:
        shutil.rmtree(home)


def an_event(rng: Rng, number: int) -> bytes:
    """One in two at the edges of what is legal, so that it counts; else anything like one."""
    if rng.random() < 0.02 and number:
        # the same again, or the same identity with other content
        return an_event(random.Random(rng.randrange(number)), 0)
    noon = int(NOON.timestamp() * 1000)
    near = noon + rng.choice((0, 0, 0, 0, -60_000, -DAY_MS, DAY_MS, -rng.randrange(77 * DAY_MS)))
    told: dict[str, Any] = orjson.loads(a_body(f"r-{number}"))
    told |= {
        "latency_ms": rng.choice(LATENCIES),
        "cost": orjson.Fragment(rng.choice(COSTS)),
        "timestamp": near,
    }
    told |= {"tenant_id": rng.choice(TENANTS), "provider_id": rng.choice(PROVIDERS)}
    told |= _make_kind(rng, number)
    if rng.random() < 0.5:
        return written(told)
    if rng.random() < 0.5:
        return hostile_json(orjson.dumps(told | {"cost": 0.5}), rng)
    field = rng.choice(FIELDS)
    return written(
        told
        | {
            field: rng.choice((*NUMBERS, *BEYOND))
            if type(told.get(field)) is int or field == "cost"
            else name(rng)
        }
    )


def _make_kind(rng: Rng, number: int) -> dict[str, Any]:
    """What makes an event marked, held, estimated, or an adjustment, whose cost may be below 0."""
    told = rng.choice(KINDS)
    own = (
        {"event_id": derive_identity("fuzz", str(number))}
        if "adjustment" in told or rng.random() < 0.5
        else {}
    )
    if "adjustment" not in told:
        return {**told, **own}
    return {
        **told,
        **own,
        "event_type": ADJUSTMENT_TYPE,
        "cost": orjson.Fragment(rng.choice((*SIGNED, *COSTS))),
    }


def _check_batch(lake: Lake, messages: int) -> None:
    (cut,) = lake.told
    counts = cut.counts
    assert counts["read"] == messages
    assert (
        counts["accepted"] + counts["quarantined"] + counts["duplicates"] + counts["conflicts"]
        == messages
    ), counts


def _count_events(line: ReportLine) -> int:
    return sum(
        int(line.figures[name] or 0) for name in ("count", "adjustment_count", "uncorrelated_count")
    )


def _check_all(lake: Lake, messages: int) -> dict[str, int]:
    """Report, page, reconciliation, compaction, and the last days made again."""
    warehouse = lake.warehouse
    totals = {
        name: sum(
            cut.counts.get(name, 0)
            for number in range(warehouse.head())
            if (cut := warehouse.cut(number + 1))
        )
        for name in ("read", "accepted", "quarantined")
    }
    assert totals["read"] == messages
    compact(warehouse)
    report = read_report(warehouse, UsageQuery())
    # budgets' adjustments are in no sum
    assert report.totals is None or sum(map(_count_events, [report.totals])) <= totals["accepted"]
    assert sum(map(_count_events, report.lines)) == sum(
        map(_count_events, [report.totals] if report.totals else [])
    )
    for line in report.lines:
        figures = {name: Decimal(value or 0) for name, value in line.figures.items()}
        assert figures["cost"] >= figures["adjustment_cost"], line
        assert all(
            value >= 0 for name, value in figures.items() if name not in {"cost", "adjustment_cost"}
        ), line
    render_page(read_parts(warehouse, UsageQuery(by=PAGE_COLUMNS)), "all")
    account = reconcile(IN_PROCESS, warehouse)
    assert account.is_right, [check for check in account.checks if check.is_right is False]
    today = datetime.now(UTC).date()
    work = Backfill(lake.spark, warehouse, today - timedelta(days=10), today)
    assert work.compare().is_none
    return totals
