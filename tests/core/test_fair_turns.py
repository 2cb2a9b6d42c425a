"""Tenants that wait for slots: each gets its turn, and one that leaves takes none with it."""

import asyncio
from random import Random

import pytest

from router.core.fair_slots import FairTurns


class Calls:
    """Calls that hold a slot until they are told to end; `begun` says in which order they began."""

    def __init__(self, slots: int) -> None:
        self.turns = FairTurns(slots)
        self.begun: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def begin(self, *names: str) -> None:
        """A name begins with its tenant's letter."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._call(name))
        await self.settle()

    async def _call(self, name: str) -> None:
        async with self.turns.hold(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await self.settle()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self.tasks[name].cancel()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_a_tenant_that_floods_leaves_room_for_another() -> None:
    calls = Calls(4)
    await calls.begin("a1", "a2", "a3", "a4", "b1")
    assert calls.begun == ["a1", "a2", "b1"]
    await calls.cancel(*calls.tasks)


async def test_a_slot_that_is_given_back_goes_to_the_next_tenant() -> None:
    calls = Calls(2)
    await calls.begin("a1", "b1", "a2", "a3", "b2", "c1")
    assert calls.begun == ["a1", "b1"]
    await calls.end("a1", "b1")
    assert calls.begun[2:] == ["a2", "b2"]
    await calls.end("a2", "b2")
    assert calls.begun[4:] == ["c1", "a3"]
    await calls.cancel(*calls.tasks)


async def test_one_that_leaves_while_it_waits_takes_no_slot_with_it() -> None:
    calls = Calls(1)
    await calls.begin("a1", "a2", "a3")
    await calls.cancel("a2")
    assert calls.turns.count_waiting("a") == 1
    await calls.end("a1")
    assert calls.begun == ["a1", "a3"]
    await calls.cancel(*calls.tasks)


async def test_one_that_is_cancelled_in_the_moment_of_its_turn_gives_the_slot_on() -> None:
    calls = Calls(1)
    await calls.begin("a1", "a2", "a3")
    calls.tasks["a1"].cancel()
    await asyncio.sleep(0)  # its slot is given to a2, which has not run yet
    await calls.cancel("a2")
    assert calls.begun[-1] == "a3"
    await calls.cancel(*calls.tasks)


async def test_one_that_comes_behind_one_that_is_leaving_finds_the_free_slot() -> None:
    calls = Calls(1)
    await calls.begin("a1", "a2")
    calls.tasks["a1"].cancel()
    calls.tasks["a2"].cancel()
    await calls.begin("a3")
    assert calls.begun == ["a1", "a3"]
    await calls.cancel(*calls.tasks)


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_is_lost_whatever_comes_and_goes(seed: int) -> None:
    random, calls = Random(seed), Calls(3)
    for number in range(200):
        await calls.begin(f"{random.choice('abc')}{number}")
        for name in random.sample(sorted(calls.tasks), min(3, len(calls.tasks))):
            if random.random() < 0.5:
                await calls.cancel(name)
            else:
                await calls.end(name)
    await calls.cancel(*calls.tasks)
    assert calls.turns._slots.taken == 0
    assert calls.turns._waiting == {}
