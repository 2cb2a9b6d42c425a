"""A seat whose holder ends in the midst of a renewal: one process holds it afterwards, and no other is left."""

import asyncio
from typing import ClassVar

import pytest

from router.config import Settings
from router.fleet import seat
from router.fleet.seat import Seat
from router.observability import ParentMetrics, ReadinessCheck
from tests.support.waiting import until


class FakeProcess:
    """Begins, gets ready and goes when the test says so."""

    made: ClassVar[list["FakeProcess"]] = []

    def __init__(self, number: int, on_ready: object) -> None:
        self.may_begin, self.is_ready, self.gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.families, self.ended, self.nats_url, self.check = (), None, "nats://there", ReadinessCheck(True, "")
        self.made.append(self)

    async def begin(self, settings: Settings) -> None:
        await self.may_begin.wait()

    async def becomes_ready(self, within_s: float) -> bool:
        return await self.is_ready.wait()

    async def is_gone(self, within_s: float) -> bool:
        return await self.gone.wait() if self.gone.is_set() else bool(await asyncio.sleep(0))

    def ask(self) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()

    def tell(self) -> None:
        self.gone.set()

    async def end(self) -> None:
        self.tell()


async def test_a_replacement_that_got_ready_while_another_process_was_started_keeps_the_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    made = FakeProcess.made = []
    monkeypatch.setattr(seat, "WorkerProcess", FakeProcess)
    place = Seat(1, Settings(), ParentMetrics(), lambda: None)
    life = asyncio.create_task(place.run())
    await until(lambda: made)
    made[0].may_begin.set()
    await until(lambda: place.check.ok)
    renewal = asyncio.create_task(place.renew(Settings()))
    await until(lambda: len(made) == 2)
    made[1].may_begin.set()
    made[0].gone.set()  # the holder ends, and the tree starts the seat again
    await life
    life = asyncio.create_task(place.run())
    await until(lambda: len(made) == 3)
    made[1].is_ready.set()
    assert await renewal is None
    made[2].may_begin.set()
    await until(lambda: made[2].gone.is_set())

    assert [process.gone.is_set() for process in made] == [True, False, True]
    assert (place._holder, place._processes) == (made[1], [made[1]])
    life.cancel()
    await asyncio.wait({life})
    assert made[1].gone.is_set()
