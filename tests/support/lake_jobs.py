"""Messages for the lake's jobs, with no broker between, and a lake to run the jobs on."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from router.contracts.decision import ADJUSTMENT_TYPE
from router.contracts.usage import derive_identity
from router.lake.files import read_columns
from router.lake.jobs.ingest import MicroBatchSink
from router.lake.jobs.staging import STAGED_ROW, stage_range
from router.lake.source.offset import StreamState
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import Cut, Warehouse

# near enough for a real server's messages, and over
NOON = datetime.combine(datetime.now(UTC).date() - timedelta(days=4), time(12), UTC)
MESSAGES = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.string())),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
TASKS = 2
FACTS = StreamState("ROUTER_USAGE", "2026-11-01T00:00:00Z", 1, 0, 0, 0)


def a_body(request: str = "r-1", *, cost: str = "0.5", at: datetime = NOON, **other: Any) -> bytes:
    """A usage event as the router stores it; `cost` is its text."""
    event = {
        "version": "1",
        "tenant_id": "acme",
        "provider_id": "openai",
        "event_type": "chat",
        "latency_ms": 120,
    }
    event |= {
        "cost": orjson.Fragment(cost),
        "status": "success",
        "timestamp": int(at.timestamp() * 1000),
        "request_id": request,
    }
    return orjson.dumps(
        {name: value for name, value in {**event, **other}.items() if value is not None}
    )


def an_adjustment(key: str = "adjust-1", *, cost: str = "-0.5", **other: Any) -> bytes:
    """An adjustment of a bill, as the command stores it; `key`: the command's own id."""
    of_its_own = {
        "event_type": ADJUSTMENT_TYPE,
        "latency_ms": 0,
        "adjustment": "bill",
        "reason": "counted twice",
    }
    made = derive_identity("adjustment", "bill", "acme", key)
    return a_body(**{"request": None, "cost": cost, "event_id": made, **of_its_own, **other})  # type: ignore[arg-type]


def messages(
    bodies: Sequence[bytes], *, first: int = 1, came: datetime = NOON + timedelta(seconds=1)
) -> pa.Table:
    rows = [
        {
            "stream": "ROUTER_USAGE",
            "seq": seq,
            "subject": "beamline.usage.v1.metered",
            "time": came,
            "headers": None,
            "data": body,
        }
        for seq, body in enumerate(bodies, first)
    ]
    return pa.Table.from_pylist(rows, schema=MESSAGES)


class Lake:
    """A warehouse of its own, fed a micro-batch at a time."""

    def __init__(self, spark: SparkSession, home: Path | str, facts: StreamState = FACTS) -> None:
        self.spark = spark
        self.home = home
        self.warehouse = Warehouse(str(home))
        self._next = 1
        self._batch = 0
        self.told: list[Cut] = []
        self.writing = MicroBatchSink(self.warehouse, facts, TASKS, self.told.append)

    def take(self, *bodies: bytes, came: datetime = NOON + timedelta(seconds=1)) -> None:
        rows = messages(bodies, first=self._next, came=came)
        self._next += len(bodies)
        self.batch(rows)

    def batch(self, *ranges: pa.Table) -> None:
        """One micro-batch, of one range or more."""
        landed = [
            row
            for rows in ranges
            for row in stage_range(rows.to_batches(), self.warehouse.storage, TASKS)
        ]
        self.writing.write_batch(self.spark.createDataFrame(landed, STAGED_ROW), self._batch)
        self._batch += 1

    def rows(self, table: str, as_of_cut: int | None = None) -> list[dict[str, Any]]:
        """As a reader of cuts sees them."""
        files = self.warehouse.files(table, as_of_cut)
        read_rows: list[dict[str, Any]] = read_columns(
            self.warehouse, table, files, ARROW[table].names
        ).to_pylist()
        return sorted(read_rows, key=lambda row: str(row.get("seq", row)))
