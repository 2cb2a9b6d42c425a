"""One row from its start to its end, on a stage of its own.

warm-up ── alone ── a gap ── beside the neighbour ── after it, until all is normal again or too long has passed
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from tests.rigs.neighbours.figures import (
    Experience,
    Record,
    is_steady,
    normal_again_s,
    normal_limit_ms,
    seconds_after,
    summarize,
)
from tests.rigs.neighbours.part import Broken, Line, Part, a_part
from tests.rigs.neighbours.result import GAP_S, NICE, RATE, RowResult, Sample, Timing
from tests.rigs.neighbours.rows import ELSEWHERE_STORED, LINGER_S, Row, Service
from tests.rigs.neighbours.stage import Stage, on_stage
from tests.rigs.neighbours.tree import Tree
from tests.support.patient_client import connect_patiently

SAMPLE_S = 0.5
DECIDE_STREAM = "ROUTER_DECIDE"

Tell = Callable[[str], None]


async def run_row(row: Row, tree: Tree, timing: Timing, capacity: float) -> RowResult:
    """Raises Broken when a part does not start: what was measured would be worth nothing."""
    async with on_stage(tree) as stage, AsyncExitStack() as parts:
        await _make_elsewhere(row, stage)
        services = [await parts.enter_async_context(_a_service(one, stage)) for one in row.services]
        records: list[Record] = []
        quiet = await parts.enter_async_context(_a_quiet_tenant(stage, row, records))
        neighbour = await parts.enter_async_context(
            _a_neighbour(row, stage, tree, timing.beside_s(row), capacity)
        )
        for part in (*services, quiet, neighbour):
            await part.ready()
        for part in (*services, quiet):
            part.go()
        return await _Course(row, tree, stage, timing, capacity=capacity, records=records).run(
            quiet, neighbour
        )


class _Course:
    """The phases of a row whose parts are ready."""

    def __init__(
        self,
        row: Row,
        tree: Tree,
        stage: Stage,
        timing: Timing,
        *,
        capacity: float,
        records: list[Record],
    ) -> None:
        self._row = row
        self._tree = tree
        self._stage = stage
        self._timing = timing
        self._seconds = timing.beside_s(row)
        self._capacity = capacity
        self._records = records
        self._samples: list[Sample] = []
        self._begun = 0.0

    async def run(self, quiet: Part, neighbour: Part) -> RowResult:
        await asyncio.sleep(self._timing.warm_s)
        first = time.monotonic()
        await asyncio.sleep(self._timing.seconds)
        alone_until = time.monotonic()
        await asyncio.sleep(GAP_S)
        resident = self._stage.resident_mib()
        sampling = asyncio.create_task(self._sample())
        cpu, self._begun = self._stage.cpu_s(), time.monotonic()
        neighbour.go()
        await asyncio.sleep(self._seconds)
        used = [
            (after - before) / self._seconds
            for before, after in zip(cpu, self._stage.cpu_s(), strict=True)
        ]
        alone = summarize(self._records, first, alone_until)
        activity = await self._figures_of(neighbour)
        ended = max(self._begun + self._seconds, activity.get("ended", 0.0))
        looked_s = await self._look_until_steady(alone, ended)
        sampling.cancel()
        is_running = self._stage.is_running
        quiet.stop()
        asked = await quiet.figures(LINGER_S)
        until = ended + looked_s
        return RowResult(
            row=self._row.name,
            commit=self._tree.commit,
            seconds=self._seconds,
            alone=alone,
            beside=summarize(self._records, self._begun, ended),
            after=summarize(self._records, max(ended, until - 5), until),
            normal_again_s=normal_again_s(
                seconds_after(self._records, ended, until, normal_limit_ms(alone))
            ),
            looked_s=looked_s,
            samples=self._samples,
            resident_before_mib=resident,
            router_cpu=used[0],
            server_cpu=used[1],
            is_running=is_running,
            neighbour=activity,
            quiet=asked,
            times=activity.get("sent", 0) / (ended - self._begun) / self._capacity
            if self._row.times is not None
            else None,
        )

    async def _figures_of(self, neighbour: Part) -> Line:
        try:
            return await neighbour.figures(LINGER_S + self._seconds)
        except Broken as exc:
            return {"complaint": str(exc)}

    async def _look_until_steady(self, alone: Experience, ended: float) -> float:
        """How many seconds after its end it was looked at: until so many normal ones in a row, at
        most `after_s`.
        """
        limit = normal_limit_ms(alone)
        while (now := time.monotonic()) < ended + self._timing.after_s:
            if is_steady(seconds_after(self._records, ended, now - SAMPLE_S, limit)):
                break
            await asyncio.sleep(SAMPLE_S)
        return now - SAMPLE_S - ended

    async def _sample(self) -> None:
        while True:
            self._samples.append(
                Sample(
                    round(time.monotonic() - self._begun, 2), round(self._stage.resident_mib(), 1)
                )
            )
            await asyncio.sleep(SAMPLE_S)


# -- parts


def _a_quiet_tenant(
    stage: Stage, row: Row, records: list[Record]
) -> AbstractAsyncContextManager[Part]:
    def keep(said: Line) -> None:
        records.append(Record(said["due"], said["ms"], said["code"]))

    return a_part("quiet", on_record=keep, url=stage.url, rate=RATE, kinds=list(row.kinds))


def _a_service(one: Service, stage: Stage) -> AbstractAsyncContextManager[Part]:
    return a_part(one.play, url=stage.url, nice=NICE if one.is_neighbours else 0, **one.given)


def _a_neighbour(
    row: Row, stage: Stage, tree: Tree, seconds: float, capacity: float
) -> AbstractAsyncContextManager[Part]:
    given: dict[str, Any] = dict(row.given)
    if row.times is not None:
        given["rate"] = row.times * capacity
    if row.play == "putter":
        given["tree"] = tree.path
    return a_part(row.play, url=stage.url, nice=NICE, seconds=seconds, **given)


async def _make_elsewhere(row: Row, stage: Stage) -> None:
    """A stream like the router's own, at a subject that it does not know."""
    if row.given.get("subject") != ELSEWHERE_STORED:
        return
    async with await connect_patiently(stage.url) as client:
        jsm = client.jsm()
        config = (await jsm.stream_info(DECIDE_STREAM)).config
        await jsm.add_stream(config.evolve(name="ELSEWHERE", subjects=[ELSEWHERE_STORED]))


async def probe_capacity(tree: Tree, *, in_flight: int, seconds: float) -> float:
    """Requests a second that a router of this tree answers, so many in flight, with the generator
    on the same machine.
    """
    async with (
        on_stage(tree) as stage,
        a_part("probe", url=stage.url, nice=NICE, in_flight=in_flight, seconds=seconds) as part,
    ):
        await part.ready()
        part.go()
        return float((await part.figures(seconds + LINGER_S))["capacity"])
