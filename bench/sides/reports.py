"""A warehouse with the gold of many events, and the same report read from it: by us, and by DuckDB
as the yardstick.

The gold is that of one micro-batch's events, written once for each micro-batch: as many rows,
buckets and files as a real ingest of so many events leaves, made in seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from math import ceil, log
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.child import Ready
from bench.question import Measured
from router.lake.generate import Load, LoadPlan
from router.lake.warehouse import DataFile, Warehouse

BATCH = 500_000  # events of a micro-batch
GROUP = ("tenant_id", "provider_id", "event_type", "status", "model")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in GROUP),
        ("count", pa.int64()),
        ("cost", pa.decimal128(38, 9)),
        *((name, pa.int64()) for name in ("latency_sum", "latency_min", "latency_max")),
        ("histogram", pa.map_(pa.int32(), pa.int64())),
    ]
)
SAME = """
with gold as (select * from read_parquet($1, hive_partitioning = true, hive_types_autocast = false)),
sums as (
  select tenant_id, provider_id, event_type, status, model, day, sum(count) as count, sum(cost) as cost, sum(latency_sum) as latency_sum,
    min(latency_min) as latency_min, max(latency_max) as latency_max
  from gold group by all),
entries as (select tenant_id, provider_id, event_type, status, model, day, unnest(map_entries(histogram)) as entry from gold),
buckets as (
  select tenant_id, provider_id, event_type, status, model, day, entry.key as bucket, sum(entry.value) as n from entries group by all),
ranked as (
  select *, sum(n) over (partition by tenant_id, provider_id, event_type, status, model, day order by bucket) as passed,
    sum(n) over (partition by tenant_id, provider_id, event_type, status, model, day) as total
  from buckets),
percentiles as (
  select tenant_id, provider_id, event_type, status, model, day, min(bucket) filter (passed >= total * 0.50) as p50,
    min(bucket) filter (passed >= total * 0.95) as p95, min(bucket) filter (passed >= total * 0.99) as p99
  from ranked group by all)
select * from sums join percentiles using (tenant_id, provider_id, event_type, status, model, day) order by all
"""


async def build(ready: Ready, *, home: str, events: int) -> Measured:
    """Gold of so many events."""
    batch = min(BATCH, events)
    rows = list(_rows(Load(LoadPlan(events=batch))))
    warehouse = Warehouse(home)
    for number in range(max(1, events // batch)):
        files = [
            _written(Path(home), number, day, [row for of, row in rows if of == day])
            for day in sorted({day for day, _ in rows})
        ]
        version = warehouse.tables["gold_day"].commit(files, lambda _: [])
        warehouse.append_cut("ingest", {"gold_day": version or 0})
    return {"rows": len(rows)}


async def pyarrow(ready: Ready, *, home: str) -> Measured:
    """As `router usage report --json` reads."""
    from router.lake.report import UsageQuery, read_report

    begun = time.perf_counter()
    report = await asyncio.to_thread(lambda: read_report(Warehouse(home), UsageQuery()))
    assert report.totals is not None
    return {
        "seconds": time.perf_counter() - begun,
        "lines": len(report.lines),
        "events": report.totals.count,
    }


async def duckdb(ready: Ready, *, home: str) -> Measured:
    """The same files, the same sums, the same percentiles, in SQL."""
    import duckdb as engine

    begun = time.perf_counter()
    rows = engine.execute(SAME, [Warehouse(home).paths("gold_day")]).fetchall()
    return {
        "seconds": time.perf_counter() - begun,
        "lines": len(rows),
        "events": sum(row[5] for row in rows),
    }


def _rows(load: Load) -> Iterator[tuple[str, dict[str, object]]]:
    """By day, the partial sums of each group."""
    for _ in load.make_chunks():
        pass
    for row, latencies in load.truth.iterate_rows():
        buckets = Counter(ceil(log(latency) / log(1.02)) for latency in latencies)
        figures = {name: row[f"latency_{name}_ms"] for name in ("sum", "min", "max")}
        kept = {name: row[name] for name in (*GROUP, "count")}
        sums = {f"latency_{name}": value for name, value in figures.items()}
        yield (
            str(row["day"]),
            {
                **kept,
                **sums,
                "cost": Decimal(str(row["cost"])),
                "histogram": sorted(buckets.items()),
            },
        )


def _written(home: Path, number: int, day: str, rows: list[dict[str, object]]) -> DataFile:
    path = home / f"gold_day/{number:03d}/day={day}/part.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, compression="zstd")
    return DataFile(
        path=str(path.relative_to(home)), rows=len(rows), bytes=path.stat().st_size, day=day
    )
