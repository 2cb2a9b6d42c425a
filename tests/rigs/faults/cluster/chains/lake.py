"""Usage events, which an ingest reads from their stream into the tables of a warehouse."""

from __future__ import annotations

import asyncio
import contextlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import nats.errors
import pyarrow.parquet as pq

from router.contracts.usage import USAGE_SUBJECT
from router.core.clock import now_ms
from router.lake.generate import Load, LoadPlan
from router.lake.warehouse import Warehouse
from tests.rigs.faults.child import Child
from tests.rigs.faults.cluster.chains.chain import Effect, Surroundings
from tests.rigs.faults.cluster.groups import Group
from tests.rigs.faults.standing import standing
from tests.support.waiting import until

STREAM = "ROUTER_USAGE"
MOST = 20_000  # events of one run
CONFIG = {
    "name": STREAM,
    "subjects": [USAGE_SUBJECT],
    "storage": "file",
    "allow_direct": True,
    "num_replicas": 3,
}
INGEST = (
    "router",
    "usage",
    "ingest",
    "--continuous",
    "--json",
    "--master",
    "local[1]",
    "--max-rows",
    "5000",
)
FIRST = 0


class LakeChain:
    """Every message has one row in bronze and, since none is a repetition, one in silver."""

    name = "lake"
    groups = (Group(STREAM),)

    async def start(self, stage: Surroundings) -> list[Child]:
        """One event is stored before the ingest starts: it announces nothing but its commits."""
        self._stage = stage
        self._home = stage.home / "warehouse"
        plan = LoadPlan(
            events=MOST, duplicates=0.0, malformed=0.0, conflicts=0, tenants=3, until_ms=now_ms()
        )
        self._messages = [message for chunk in Load(plan).make_chunks() for message in chunk]
        await stage.clients.current.request(
            f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(CONFIG).encode(), timeout=30
        )
        await until(self._store_first, within_s=30, what="a leader of the stream")
        return [await stage.add_child("ingest", (*INGEST, "--warehouse", str(self._home)), "")]

    async def open(self) -> None: ...

    async def _store_first(self) -> bool:
        with contextlib.suppress(nats.errors.Error):
            self._first = await self.send(FIRST)
            return True
        return False

    async def send(self, number: int) -> str:
        event_id, body = self._messages[number]
        js = self._stage.clients.current.jetstream()
        await js.publish(USAGE_SUBJECT, body, headers={"Nats-Msg-Id": event_id}, timeout=5)
        return event_id

    async def count(self) -> int:
        """Without the first, which the load has not sent."""
        return len(await asyncio.to_thread(self._read_column, "silver", "event_id")) - 1

    async def read(self) -> Mapping[str, Sequence[Effect]]:
        ids = {
            one.sequence: one.msg_id for one in await standing(self._stage.clients.current, STREAM)
        }
        return {
            name: [one for one in found if one.of != self._first]
            for name, found in (await asyncio.to_thread(self._read, ids)).items()
        }

    async def close(self) -> None: ...

    def _read(self, ids: Mapping[int, str]) -> Mapping[str, list[Effect]]:
        warehouse = Warehouse(str(self._home))
        cuts = [
            cut
            for number in range(warehouse.head())
            if (cut := warehouse.cut(number + 1)) is not None
        ]
        ends = [
            (cut.progress.last, datetime.fromisoformat(cut.at).timestamp())
            for cut in cuts
            if cut.progress is not None
        ]
        lasts, times = [last for last, _ in ends], [at for _, at in ends]
        sequences = [int(str(one)) for one in self._read_column("bronze", "seq")]
        at = {
            ids.get(one, f"sequence {one}"): times[min(bisect_left(lasts, one), len(times) - 1)]
            for one in sequences
        }
        rows = Counter(ids.get(one, f"sequence {one}") for one in sequences)
        events = [str(one) for one in self._read_column("silver", "event_id")]
        return {
            "bronze": [Effect(one, at[one]) for one in rows.elements()],
            "silver": [Effect(one, at.get(one, 0.0)) for one in events],
        }

    def _read_column(self, table: str, name: str) -> list[object]:
        return list(_read_files(Warehouse(str(self._home)).paths(table), name))


def _read_files(paths: Sequence[str], name: str) -> Iterator[object]:
    for path in paths:
        yield from pq.ParquetFile(path).read([name])[name].to_pylist()
