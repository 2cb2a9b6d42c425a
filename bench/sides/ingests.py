"""Usage events out of a stream into tables: by the whole pipeline, and by DuckDB as the yardstick.

The yardstick reads the same messages through the same consumer, and in one SQL statement takes the
JSON apart, keeps the first of each identity and writes Parquet: no commit, no quarantine with a
reason, no conflicts, no sums, nothing that survives a crash. What it costs is the floor.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.child import Ready
from bench.family import Used, used, used_alone
from bench.question import Broken, Measured
from router.core.clock import now_ms
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.lake.generate import Load, LoadPlan, fill

if TYPE_CHECKING:
    from router.lake.jobs.ingest import IngestCallback, RunningIngest
    from router.lake.warehouse import Cut

STREAM = "ROUTER_USAGE"
# messages in a micro-batch, and how many of them, before the clock is started
WARM, BATCHES = 50_000, 3
FIRSTS = """
copy (
  with texts as (select seq, try(decode(data)) as body from messages),
  read as (select seq, body from texts where json_valid(body)),
  typed as (
    select seq, body->>'tenant_id' as tenant_id, body->>'provider_id' as provider_id, body->>'event_type' as event_type,
      body->>'status' as status, try_cast(body->>'latency_ms' as bigint) as latency_ms, try_cast(body->>'cost' as decimal(38, 9)) as cost,
      try_cast(body->>'timestamp' as bigint) as timestamp,
      coalesce(body->>'assignment_id', body->>'request_id', body->>'event_id') as reference
    from read)
  select * from typed
  where tenant_id is not null and provider_id is not null and reference is not null and timestamp is not null
    and latency_ms is not null and cost is not null
  qualify row_number() over (partition by tenant_id, reference, status order by seq) = 1
) to '{file}' (format parquet, compression zstd)
"""


async def fill_stream(
    ready: Ready, *, url: str, events: int, truth: str, seed: int = 1
) -> Measured:
    """The stream, as large as it has to be, and the truth about it. Another `seed`: other events."""
    connection = await connect({"servers": [url]})
    jetstream = JetStream(connection)
    config = (await jetstream.stream(STREAM) or {})["config"]
    await jetstream.ask(f"STREAM.UPDATE.{STREAM}", {**config, "max_bytes": -1})
    load, begun = Load(LoadPlan(events=events, until_ms=now_ms(), seed=seed)), time.perf_counter()
    await fill(jetstream, load, STREAM)
    await connection.close()
    told = load.truth.to_json()
    await asyncio.to_thread(Path(truth).write_text, json.dumps(told))
    return {"rate": events / (time.perf_counter() - begun)}


async def spark(
    ready: Ready,
    *,
    url: str,
    home: str,
    events: int,
    broker: int,
    batch: int = 500_000,
    master: str = "local[2]",
) -> Measured:
    """From the start of the query to its end, with a session that has ingested before. What a
    cluster runs is in no figure but the rate.
    """
    from router.lake.jobs.ingest import IngestJob, start_ingest
    from router.lake.session import create_session

    def whole() -> Measured:
        session_, source = create_session(master), {"url": url, "stream": STREAM}
        _warm(
            lambda told: start_ingest(
                session_, IngestJob(warehouse=f"{home}/warm", source=source, max_rows=WARM), told
            )
        )
        looks, brokers, begun = [used(os.getpid())], used(broker), time.perf_counter()
        drivers = [used_alone(os.getpid())]

        def look() -> None:
            looks.append(used(os.getpid()))
            drivers.append(used_alone(os.getpid()))

        job = IngestJob(warehouse=f"{home}/tables", source=source, max_rows=batch)
        running = start_ingest(session_, job, lambda _, __: look())
        while not running.wait(1):
            pass
        seconds, broker_s = time.perf_counter() - begun, used(broker).cpu_s - brokers.cpu_s
        figures = {
            "rate": events / seconds,
            "broker_us": broker_s / events * 1e6,
            "peak_mib": looks[-1].peak_mib,
        }
        figures |= {
            "cpu_us": (looks[-1].cpu_s - looks[0].cpu_s) / events * 1e6,
            **_find_growth(looks, "growth"),
        }
        driver_s = drivers[-1].cpu_s - drivers[0].cpu_s
        figures |= {
            "driver_us": driver_s / events * 1e6,
            "driver_batch_ms": driver_s / (len(drivers) - 1) * 1e3,
        }
        return {
            **figures,
            "driver_mib": drivers[-1].peak_mib,
            **_find_growth(drivers, "driver_growth"),
        }

    return await asyncio.to_thread(whole)


async def start(ready: Ready, *, url: str, location: str) -> Measured:
    """The first micro-batch over tables that hold a history: until the query runs, and until the
    batch is committed.
    """
    from router.lake.jobs.ingest import IngestJob, start_ingest
    from router.lake.session import create_session

    def whole() -> Measured:
        session, cuts = create_session("local[2]"), list[float]()
        begun, cpu_s = time.perf_counter(), used_alone(os.getpid()).cpu_s
        job = IngestJob(warehouse=location, source={"url": url, "stream": STREAM})
        running = start_ingest(session, job, lambda _, __: cuts.append(time.perf_counter()))
        runs = time.perf_counter()
        while not running.wait(1):
            pass
        driver = used_alone(os.getpid())
        return {
            "start_s": runs - begun,
            "batch_s": cuts[0] - runs,
            "driver_s": driver.cpu_s - cpu_s,
            "driver_mib": driver.peak_mib,
        }

    return await asyncio.to_thread(whole)


def _find_growth(looks: list[Used], name: str) -> dict[str, float]:
    """The cost of the last quarter of the micro-batches against that of the second, when there are
    so many.
    """
    quarter = (len(looks) - 1) // 4
    if not quarter:
        return {}
    early, late = (
        looks[end].cpu_s - looks[end - quarter].cpu_s for end in (2 * quarter, len(looks) - 1)
    )
    return {name: late / early if early else 1.0}


def _warm(begin: Callable[[IngestCallback], RunningIngest]) -> None:
    """A few micro-batches into tables that are thrown away: processes start, the JVM compiles."""
    cuts: list[Cut] = []
    running = begin(lambda cut, _: cuts.append(cut))
    while len(cuts) < BATCHES and not running.wait(1):
        pass
    running.stop()


async def duckdb(ready: Ready, *, url: str, home: str, events: int, broker: int) -> Measured:
    """One process, everything in memory."""
    import duckdb as engine

    from router.lake.source.options import read_options

    def whole() -> Measured:
        begun = time.perf_counter()
        messages = _messages(
            read_options({"url": url, "stream": STREAM, "includeHeaders": "false"}), events
        )
        database = engine.connect(config={"threads": 2})
        database.register("messages", messages)
        database.execute(FIRSTS.format(file=f"{home}/silver.parquet"))
        (kept,) = database.execute(f"select count(*) from '{home}/silver.parquet'").fetchone() or (
            0,
        )
        return {"rate": events / (time.perf_counter() - begun), "kept": kept}

    return await asyncio.to_thread(whole)


def _messages(options: object, events: int) -> pa.Table:
    from router.lake.reconcile.stream import open_stream

    stream = open_stream(options)  # type: ignore[arg-type]
    return pa.Table.from_batches(list(stream.messages(1, events))).select(["seq", "data"])


async def right(home: str, truth: dict[str, object]) -> None:
    """Broken unless the tables in `home` hold the truth, every sum of it."""
    from router.lake.report import DIMENSIONS, UsageQuery, read_report
    from router.lake.tables.gold_columns import GOLD_COLUMNS
    from router.lake.warehouse import Warehouse

    report = await asyncio.to_thread(lambda: read_report(Warehouse(home), UsageQuery()).to_json())
    exact = (*(column.label for column in GOLD_COLUMNS), *DIMENSIONS)
    rows = {tuple(str(row[name]) for name in exact) for row in report["rows"]}  # type: ignore[attr-defined]
    wanted = {tuple(str(row[name]) for name in exact) for row in truth["rows"]}  # type: ignore[attr-defined]
    if rows != wanted:
        raise Broken(f"the tables are not the truth: {len(rows ^ wanted)} rows differ")
