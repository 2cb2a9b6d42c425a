"""A small warehouse whose tables agree, unless a test takes something away or doubles it."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from math import ceil, log
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from router.lake.tables.gold import GAMMA, HISTOGRAM_TYPE
from router.lake.warehouse import DataFile, Progress, Warehouse
from tests.support.lake_commits import add_files

MONEY = pa.decimal128(38, 9)
CREATED = "2026-11-20T00:00:00Z"
DAY = datetime(2026, 11, 20, 12, tzinfo=UTC)

Rows = list[dict[str, object]]

_GROUP = [
    (name, pa.string()) for name in ("tenant_id", "provider_id", "event_type", "status", "model")
]
_IDS = [(name, pa.string()) for name in ("assignment_id", "request_id")]
_PLACE = [("seq", pa.int64())]
_INSTANT = pa.timestamp("us", "UTC")
_NUMBERS = [
    ("event_id", pa.string()),
    ("id_high", pa.int64()),
    ("id_low", pa.int64()),
    ("content", pa.int64()),
]
_LATER = [("correlated", pa.bool_()), ("adjustment", pa.string()), ("budget", pa.string())]
_GOLD = [
    ("window_start", _INSTANT),
    ("corrects_window", _INSTANT),
    *_GROUP,
    ("count", pa.int64()),
    ("cost", MONEY),
    ("latency_sum", pa.int64()),
    ("histogram", HISTOGRAM_TYPE),
]
SCHEMAS = {
    "bronze": pa.schema(
        [
            *_PLACE,
            ("data", pa.binary()),
            ("time", _INSTANT),
            ("headers", pa.map_(pa.string(), pa.string())),
        ]
    ),
    "silver": pa.schema(
        [
            *_PLACE,
            *_GROUP,
            *_IDS,
            *_NUMBERS,
            ("latency_ms", pa.int64()),
            ("cost", MONEY),
            ("time", _INSTANT),
            ("timestamp", _INSTANT),
            *_LATER,
        ]
    ),
    "duplicates": pa.schema(_PLACE),
    "conflicts": pa.schema(_PLACE),
    "quarantine": pa.schema(_PLACE),
    "gold_minute": pa.schema(_GOLD),
    "gold_hour": pa.schema(_GOLD),
    "gold_day": pa.schema(_GOLD),
}


def body(seq: int, *, cost: str = "0.25", **more: object) -> bytes:
    """A usage event of request `r-SEQ`, its cost as this text."""
    event = {
        "tenant_id": "acme", "provider_id": "openai", "event_type": "chat", "latency_ms": 10 * seq, "cost": orjson.Fragment(cost),
        "status": "success", "timestamp": 1_763_640_000_000, "request_id": f"r-{seq}", **more,
    }  # fmt: skip
    return orjson.dumps(event)


def tables_of(bodies: Iterable[bytes], costs: Iterable[str]) -> dict[str, Rows]:
    """Every table, when all of these are events that count and cost so much."""
    silver: Rows = []
    bronze: Rows = []
    for seq, (data, cost) in enumerate(zip(bodies, costs, strict=True), 1):
        event = orjson.loads(data)
        kept = {
            name: event.get(name)
            for name in (
                "tenant_id",
                "provider_id",
                "event_type",
                "status",
                "model",
                "latency_ms",
                "assignment_id",
                "request_id",
                *dict(_LATER),
            )
        }
        bronze.append({"seq": seq, "data": data, "time": DAY})
        silver.append(
            {
                "seq": seq,
                **kept,
                **numbers_of(seq),
                "cost": Decimal(cost),
                "time": DAY,
                "timestamp": DAY,
                "content": seq,
            }
        )
    gold = [
        {
            **row,
            "model": row["model"] or "",
            "count": 1,
            "latency_sum": row["latency_ms"],
            "histogram": [(bucket_of(row), 1)],
            "window_start": DAY,
        }
        for row in silver
    ]
    return {
        "bronze": bronze,
        "silver": silver,
        "duplicates": [],
        "conflicts": [],
        "quarantine": [],
        "gold_minute": gold,
        "gold_hour": list(gold),
        "gold_day": list(gold),
    }


def numbers_of(seq: int) -> dict[str, object]:
    """An identity, and the two numbers by which it is looked up."""
    digits = f"{seq:032x}"
    high, low = (
        int.from_bytes(bytes.fromhex(half), "little", signed=True)
        for half in (digits[:16], digits[16:])
    )
    return {"event_id": f"usage:{digits}", "id_high": high, "id_low": low}


def bucket_of(row: dict[str, object]) -> int:
    """Of its latency, which is above 0."""
    return ceil(log(int(str(row["latency_ms"]))) / log(GAMMA))


def an_account(path: Path, tables: dict[str, Rows], created: str = CREATED) -> Warehouse:
    """One ingest."""
    warehouse = Warehouse(str(path))
    files = {table: [_file(path, table, rows)] for table, rows in tables.items() if rows}
    last = max((int(str(row["seq"])) for row in tables["bronze"]), default=0)
    add_files(warehouse, files, Progress(stream="USED", created=created, first=1, last=last))
    return warehouse


def _file(path: Path, table: str, rows: Rows) -> DataFile:
    name = f"{table}/1/day=2026-11-20/part.parquet"
    (path / name).parent.mkdir(parents=True)
    schema = SCHEMAS[table]
    pq.write_table(
        pa.Table.from_pylist(
            [{field: row.get(field) for field in schema.names} for row in rows], schema=schema
        ),
        path / name,
    )
    sequences = [int(str(row["seq"])) for row in rows] if "seq" in schema.names else []
    return DataFile(
        path=name,
        rows=len(rows),
        bytes=1,
        day="2026-11-20",
        bucket=0,
        min_seq=min(sequences, default=None),
        max_seq=max(sequences, default=None),
    )
