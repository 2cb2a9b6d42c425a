"""Late events, and sealed days. Every late event is marked, and none changes a bill that was
written.

    open      a window of the last minutes
    watermark a later event is late: its sum is a further revision of its window, marked `late`
    sealed    the window's day is closed: the sum is a row of the day on which the event arrived,
              with `corrects_window`

An event is as late as its message: stream time minus its timestamp. So the same stream gives the
same marks, however it was cut into micro-batches, and again in a backfill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.tables.gold import INSTANT, floor_instants
from router.lake.warehouse.commit import Seal

WATERMARK_S = 600
LATENESS_BUCKETS = (
    ("within_1h", 3600),
    ("within_1d", 86_400),
    ("within_7d", 7 * 86_400),
    ("older", None),
)


def list_sealed_days(seals: Iterable[Seal]) -> frozenset[date]:
    return frozenset(
        day
        for seal in seals
        for day in list_days(date.fromisoformat(seal.first_day), date.fromisoformat(seal.last_day))
    )


def list_days(first: date, last: date) -> list[date]:
    """Return all days from `first` to `last`, both inclusive."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def compute_lateness(events: pa.Table) -> pa.ChunkedArray:
    """Return whole seconds; below zero if a clock runs ahead."""
    return pc.subtract(_floor_to_seconds(events["time"]), _floor_to_seconds(events["timestamp"]))


def count_late(seconds: pa.ChunkedArray) -> dict[str, int]:
    """Count late events by how late they are: `late_within_1h` and so on; a class without events is
    left out.
    """
    late = seconds.filter(pc.greater(seconds, WATERMARK_S))
    counts, before = {}, 0
    for name, most in LATENESS_BUCKETS:
        upto = len(late) if most is None else pc.sum(pc.less_equal(late, most)).as_py() or 0
        counts[f"late_{name}"] = upto - before
        before = upto
    return {name: count for name, count in counts.items() if count}


def assign_windows(events: pa.Table, sealed: Collection[date], grain: str) -> pa.Table:
    """Add the window in which each event is summed, whether it is late, and which sealed window it
    corrects.
    """
    own = floor_instants(events["timestamp"], grain)
    is_sealed = pc.is_in(floor_to_days(events["timestamp"]), pa.array(sorted(sealed), pa.date32()))
    late = pc.greater(compute_lateness(events), WATERMARK_S)
    landing = floor_instants(_find_arrivals(events["time"], sealed), grain)
    added = {
        "window_start": pc.if_else(is_sealed, landing, own),
        "late": late,
        "corrects_window": pc.if_else(is_sealed, own, pa.scalar(None, INSTANT)),
    }
    return pa.table({**{name: events[name] for name in events.column_names}, **added})


def _find_arrivals(stored: pa.ChunkedArray, sealed: Collection[date]) -> pa.ChunkedArray:
    """Return when the stream stored each message; if that day is sealed too, the start of the first
    open day after it.
    """
    for day in sorted(sealed):
        opens = pa.scalar(datetime.combine(_find_open_day(day, sealed), time.min, UTC), INSTANT)
        stored = pc.if_else(pc.equal(floor_to_days(stored), pa.scalar(day)), opens, stored)
    return stored


def _find_open_day(day: date, sealed: Collection[date]) -> date:
    while day in sealed:
        day += timedelta(days=1)
    return day


def floor_to_days(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the UTC day of each instant."""
    return instants.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)


def _floor_to_seconds(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    return (
        pc.floor_temporal(instants.cast(pa.timestamp("us")), unit="second")
        .cast(pa.timestamp("s"))
        .cast(pa.int64())
    )
