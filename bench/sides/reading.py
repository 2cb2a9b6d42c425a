"""The usage stream read by ranges: through Spark, in one process, and by a bare consumer that only
counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import orjson

from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.question import Broken, Measured
from bench.stretch import MIB, peak_bytes
from router.core.clock import now_ms

PULL = 16_384


async def fill(ready: Ready, *, url: str, count: int) -> Measured:
    """Store generated events."""
    from router.lake.generate import Load, LoadPlan
    from router.lake.generate import fill as into

    async with jetstream_on(url) as jetstream:
        await into(
            jetstream,
            Load(LoadPlan(events=count, until_ms=now_ms())),
            settings(url).streams.usage.name,
        )
    return {"stored": count}


async def spark(ready: Ready, *, url: str, count: int) -> Measured:
    from router.lake.session import create_session

    source = {"url": url, "stream": settings(url).streams.usage.name}
    spark = create_session("local[2]")

    def rows() -> int:
        frame = spark.read.format("jetstream").options(**source).load()
        sums = (
            "count(*)",
            "sum(seq)",
            "sum(length(data))",
            "sum(length(subject))",
            "max(time)",
            "sum(size(headers))",
        )
        return int(frame.selectExpr(*sums).collect()[0][0])

    # the JVM compiles what it does often: the second reading is what a job that runs for a minute
    # has
    rows()
    figures = _measured(rows, count)
    spark.stop()
    return {"rate": figures["rate"]}  # its work is done in other processes


async def process(ready: Ready, *, url: str, count: int) -> Measured:
    return await asyncio.to_thread(_process, url, count)  # the source brings its own loop


def _process(url: str, count: int) -> Measured:
    from pyspark.sql.pandas.types import to_arrow_schema

    from router.lake.source.broker import read_facts
    from router.lake.source.fetch import read_record_batches
    from router.lake.source.offset import SequenceRange
    from router.lake.source.options import read_options
    from router.lake.source.rows import MESSAGE_SCHEMA

    options = read_options({"url": url, "stream": settings(url).streams.usage.name})
    whole = SequenceRange(1, count + 1, read_facts(options).created)
    schema = to_arrow_schema(MESSAGE_SCHEMA, timezone="UTC")
    return _measured(
        lambda: sum(batch.num_rows for batch in read_record_batches(options, whole, schema)), count
    )


async def bare(ready: Ready, *, url: str, count: int) -> Measured:
    stream = settings(url).streams.usage.name
    async with jetstream_on(url) as jetstream:
        connection, inbox, finished = (
            jetstream.connection,
            jetstream.connection.new_inbox(),
            asyncio.Event(),
        )
        config = {
            "deliver_policy": "all",
            "ack_policy": "none",
            "mem_storage": True,
            "inactive_threshold": 60_000_000_000,
        }
        made = await jetstream.ask(
            f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config}
        )
        left, outstanding = count, 0

        def pull() -> None:
            nonlocal outstanding
            batch = min(PULL, left) - outstanding
            outstanding += batch
            connection.publish_nowait(
                f"{jetstream.prefix}.CONSUMER.MSG.NEXT.{stream}.{made['name']}",
                orjson.dumps({"batch": batch}),
                inbox,
            )

        def hear(_subject: bytes, _reply: bytes, _data: bytes, _head: bytes | None) -> None:
            nonlocal left, outstanding
            left, outstanding = left - 1, outstanding - 1
            if not left:
                finished.set()
            elif outstanding == PULL // 2 and left > outstanding:
                pull()

        await connection.subscribe_raw(inbox, hear)
        before, cpu = time.perf_counter(), time.process_time()
        pull()
        await asyncio.wait_for(finished.wait(), 120)
        return _figures(count, before, cpu)


def _measured(read: Callable[[], int], count: int) -> Measured:
    before, cpu = time.perf_counter(), time.process_time()
    if (found := read()) != count:
        raise Broken(f"of {count} events, {found} were read")
    return _figures(count, before, cpu)


def _figures(count: int, before: float, cpu: float) -> Measured:
    taken, worked = time.perf_counter() - before, time.process_time() - cpu
    return {"rate": count / taken, "cpu_us": worked / count * 1e6, "peak_mib": peak_bytes() / MIB}
