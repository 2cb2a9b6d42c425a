"""How fast do usage events come from the stream into silver? A million of them: duplicates, late,
malformed and conflicting ones too.

local[2], with the broker on the same cores; the session has written a few micro-batches before,
elsewhere. Bronze, silver, gold and what was dropped are written in commits, and the tables are
compared with the generator's truth before a figure is shown. Ten times fewer, then, tells whether
the cost of an event stays what it is. The yardstick is DuckDB over the same messages.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path

from bench.broker import a_broker
from bench.family import member
from bench.process import PATIENCE_S, figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, sized
from bench.sides.ingests import right

EVENTS = 1_000_000
SLOWEST_S = 200e-6  # an event, on a machine that has other things to do


async def spark(scale: float) -> Measured:
    return await ingested("spark", sized(EVENTS, scale))


async def spark_tenth(scale: float) -> Measured:
    return await ingested("spark", sized(EVENTS // 10, scale))


async def duckdb(scale: float) -> Measured:
    return await ingested("duckdb", sized(EVENTS, scale))


async def ingested(side: str, events: int, **more: object) -> Measured:
    """What one side measured; Broken unless it is right."""
    patience_s = max(PATIENCE_S, events * SLOWEST_S)
    async with a_broker() as url:
        with tempfile.TemporaryDirectory(prefix="router-bench-") as home:
            file = Path(home) / "truth.json"
            await figures_of(
                "bench.sides.ingests",
                "fill_stream",
                patience_s,
                url=url,
                events=events,
                truth=str(file),
            )
            broker = member(os.getpid(), "nats-server")
            figures = await figures_of(
                "bench.sides.ingests",
                side,
                patience_s,
                url=url,
                home=home,
                events=events,
                broker=broker,
                **more,
            )
            await _checked(figures, home, json.loads(await asyncio.to_thread(file.read_text)))
    return figures


async def _checked(figures: Measured, home: str, truth: dict[str, object]) -> None:
    """Broken unless it is right: the yardstick has to keep as many events, ours to tell the truth."""
    if "kept" not in figures:
        await right(f"{home}/tables", truth)
    elif figures["kept"] != truth["accepted"]:
        raise Broken(f"{figures['kept']:.0f} events were kept of {truth['accepted']}")


QUESTION = Question(
    name="lake_ingest",
    asks="How fast do usage events come from the stream into silver?",
    sides=(Side("router", spark), Side("DuckDB", duckdb), Side("a tenth of them", spark_tenth)),
    figures=(
        Figure("rate", "events/s", target=at_least(40_000)),
        Figure("rate", "events/s", against="DuckDB"),
        Figure("rate", "events/s", against="a tenth of them"),
        Figure("broker_us", "µs of the broker an event", against="a tenth of them"),
    ),
    lasts=(50.0, 130.0),
    # minutes: the JVM starts anew for each side, and the tables are compared with the truth
    most_rounds=1,
    needs=("pyspark", "java", "duckdb"),
    unaffected="only reads",
)
