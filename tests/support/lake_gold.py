"""A small warehouse of gold tables, written as ingest writes them, for the tests of their readers."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from math import ceil, log
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from router.lake.warehouse import DataFile, Warehouse
from tests.support.lake_commits import add_files

SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us", "UTC")),
        *(
            (name, pa.string())
            for name in ("tenant_id", "provider_id", "event_type", "status", "model")
        ),
        ("count", pa.int64()),
        ("cost", pa.decimal128(38, 9)),
        *((name, pa.int64()) for name in ("latency_sum", "latency_min", "latency_max")),
        ("histogram", pa.map_(pa.int32(), pa.int64())),
    ]
)


class Use(Struct, frozen=True, kw_only=True):
    """Some events of one group."""

    tenant: str = "acme"
    provider: str = "openai"
    type: str = "chat"
    status: str = "success"
    model: str = ""
    day: str = "2026-11-20"
    latencies: tuple[int, ...] = (100,)
    cost: str = "0.000000001"  # of all of them

    def row(self) -> dict[str, object]:
        buckets: dict[int, int] = {}
        for latency in self.latencies:
            bucket = ceil(log(latency) / log(1.02)) if latency > 0 else -1
            buckets[bucket] = buckets.get(bucket, 0) + 1
        figures = {
            "latency_sum": sum(self.latencies),
            "latency_min": min(self.latencies),
            "latency_max": max(self.latencies),
        }
        whose = {
            "tenant_id": self.tenant,
            "provider_id": self.provider,
            "event_type": self.type,
            "status": self.status,
            "model": self.model,
        }
        window = {"window_start": datetime.fromisoformat(f"{self.day}T00:00:00+00:00")}
        return {
            **window,
            **whose,
            "count": len(self.latencies),
            "cost": Decimal(self.cost),
            **figures,
            "histogram": sorted(buckets.items()),
        }


def a_warehouse(path: Path, *batches: Iterable[Use]) -> Warehouse:
    """One commit a batch, one file a day in it."""
    warehouse = Warehouse(str(path))
    for number, batch in enumerate(batches, 1):
        add_gold(warehouse, path, number, list(batch))
    return warehouse


def add_gold(warehouse: Warehouse, path: Path, number: int, batch: list[Use]) -> None:
    files = []
    for day in sorted({use.day for use in batch}):
        name = f"gold_day/{number}/day={day}/part.parquet"
        (path / name).parent.mkdir(parents=True)
        rows = [use.row() for use in batch if use.day == day]
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path / name)
        files.append(
            DataFile(path=name, rows=len(rows), bytes=(path / name).stat().st_size, day=day)
        )
    add_files(warehouse, {"gold_day": files})
