"""A slot whose process ends during its replacement: one process serves in it afterwards, and no
other is left.
"""

import asyncio
from typing import ClassVar

import pytest

from router.config import Settings
from router.process.observability import ParentMetrics, ReadinessCheck
from router.serve.fleet import process_slot
from router.serve.fleet.process_slot import ProcessSlot
from tests.support.waiting import until


class FakeProcess:
    """Starts, gets ready and ends when the test says so."""

    made: ClassVar[list["FakeProcess"]] = []

    def __init__(self, number: int) -> None:
        self.may_begin, self.is_ready, self.gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.families, self.failure, self.nats_url, self.check = (
            (),
            None,
            "nats://there",
            ReadinessCheck(True, ""),
        )
        self.made.append(self)

    async def start(self, settings: Settings) -> None:
        await self.may_begin.wait()

    async def wait_until_ready(self, timeout_s: float) -> bool:
        return await self.is_ready.wait()

    async def wait_until_ended(self, timeout_s: float) -> bool:
        return await self.gone.wait() if self.gone.is_set() else bool(await asyncio.sleep(0))

    def request_status(self) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()

    def end_if_silent(self, interval_s: float) -> None: ...

    def terminate(self) -> None:
        self.gone.set()

    async def stop(self) -> None:
        self.terminate()


async def test_a_replacement_that_got_ready_while_another_process_was_started_keeps_the_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = FakeProcess.made = []
    monkeypatch.setattr(process_slot, "ChildProcess", FakeProcess)
    place = ProcessSlot(1, Settings(), ParentMetrics())
    life = asyncio.create_task(place.run())
    await until(lambda: made)
    made[0].may_begin.set()
    await until(lambda: place.check.ok)
    renewal = asyncio.create_task(place.replace(Settings()))
    await until(lambda: len(made) == 2)
    made[1].may_begin.set()
    made[0].gone.set()  # the current process ends, and the tree restarts the slot
    await life
    life = asyncio.create_task(place.run())
    await until(lambda: len(made) == 3)
    made[1].is_ready.set()
    assert await renewal is None
    made[2].may_begin.set()
    await until(lambda: made[2].gone.is_set())

    assert [process.gone.is_set() for process in made] == [True, False, True]
    assert (place._current, place._processes) == (made[1], [made[1]])
    life.cancel()
    await asyncio.wait({life})
    assert made[1].gone.is_set()
