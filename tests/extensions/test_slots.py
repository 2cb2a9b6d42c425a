"""Slots of pipelines: which share a tenant gets, in which order waiting requests are served, and
what a cancelled one leaves behind.
"""

import asyncio

from router.extensions.model import PipelineSlots


def taken(slots: PipelineSlots, tenant: str, most: int = 1000) -> int:
    return sum(slots.try_acquire(tenant) for _ in range(most))


async def waiting(
    slots: PipelineSlots, tenant: str, count: int = 1, size: int = 0
) -> list[asyncio.Task[None]]:
    turns = [slots.enqueue(tenant, size) for _ in range(count)]
    tasks = [asyncio.create_task(slots.wait(tenant, turn)) for turn in turns if turn is not None]
    await asyncio.sleep(0)
    return tasks


async def test_a_lone_tenant_gets_half_and_the_next_ones_always_find_some() -> None:
    slots = PipelineSlots(128, 8)
    assert [taken(slots, tenant) for tenant in ("a", "b", "c", "d")] == [64, 32, 16, 8]


async def test_what_a_tenant_gives_back_is_its_own_again() -> None:
    slots = PipelineSlots(4, 8)
    assert taken(slots, "a") == 2
    slots.release("a")
    assert taken(slots, "a") == 1


async def test_free_slots_go_to_waiting_tenants_one_by_one_not_to_the_one_that_waits_most() -> None:
    slots = PipelineSlots(4, 8)
    assert (taken(slots, "a"), taken(slots, "b")) == (2, 1)  # one stays free for the next tenant
    many, few = await waiting(slots, "a", 3), await waiting(slots, "b", 1)
    for served in (
        [True, False, False, False],
        [True, False, False, True],
        [True, True, False, True],
    ):
        slots.release("a")
        await asyncio.sleep(0)
        assert [task.done() for task in (*many, *few)] == served
    many[-1].cancel()


async def test_a_request_does_not_overtake_those_of_its_tenant_that_wait() -> None:
    slots = PipelineSlots(4, 8)
    assert taken(slots, "a") == 2
    (first,) = await waiting(slots, "a")
    assert not slots.try_acquire("a")
    slots.release("a")
    await asyncio.sleep(0)
    assert first.done()


async def test_the_queue_is_shared_by_places_and_by_bytes() -> None:
    slots = PipelineSlots(2, queue=8, queue_bytes=100)
    assert slots.try_acquire("a")
    assert len(await waiting(slots, "a", 9, size=10)) == 4
    assert slots.enqueue("b", 61) is None
    assert slots.enqueue("b", 60) is not None


async def test_what_goes_first_waits_in_the_place_of_the_newest_other_of_its_tenant_and_gets_the_next_slot() -> (
    None
):
    slots = PipelineSlots(2, 8)
    assert slots.try_acquire("a")
    others = await waiting(slots, "a", 4, size=1024 * 1024)
    assert slots.enqueue("a", 0) is None
    first = slots.enqueue("a", 0, goes_first=True)
    assert first is not None
    assert not await others.pop()  # answered `overloaded`
    for served in (first, *others):
        slots.release("a")
        assert await served
    slots.release("a")
    assert slots.try_acquire("a")


async def test_one_that_was_cancelled_when_its_place_was_given_away_gives_no_slot_back() -> None:
    slots = PipelineSlots(2, 8)
    assert slots.try_acquire("a")
    *others, gone = await waiting(slots, "a", 4)
    first = slots.enqueue("a", 0, goes_first=True)
    assert first is not None
    gone.cancel()
    await asyncio.sleep(0)
    assert not any(one.done() for one in (first, *others))


async def test_a_slot_that_is_waited_for_in_vain_goes_to_the_next() -> None:
    slots = PipelineSlots(2, 8)
    assert slots.try_acquire("a")
    gone, handed, patient = await waiting(slots, "a", 3)
    gone.cancel()
    await asyncio.sleep(0)
    slots.release("a")
    handed.cancel()  # in the turn of the loop in which the slot was handed to it
    await asyncio.wait([patient], timeout=1)
    assert patient.done()
    slots.release("a")
    assert slots.try_acquire("a")


async def test_nothing_is_kept_of_a_tenant_that_holds_nothing() -> None:
    slots = PipelineSlots(4, 8)
    for number in range(1000):
        assert slots.try_acquire(f"tenant-{number}")
        slots.release(f"tenant-{number}")
    assert len(slots._slots) == 0
