"""What holds the event loop is counted by its name, and nothing else is."""

import asyncio
import gc
import time
from collections.abc import Callable

from router.process.observability.loop_stalls import COLLECTOR, MAX_NAMES, STALL_S, LoopStalls

HELD_S = 4 * STALL_S


def hold_now() -> None:
    # what is tested is a loop that stands still
    time.sleep(HELD_S)


async def hold() -> None:
    hold_now()


class HoldingReader(asyncio.Protocol):
    def __init__(self, has_heard: asyncio.Event) -> None:
        self._has_heard = has_heard

    def data_received(self, data: bytes) -> None:
        hold_now()
        self._has_heard.set()


async def test_a_task_that_holds_the_loop_is_counted_by_its_coroutine() -> None:
    stalls = LoopStalls()
    with stalls.count():
        await asyncio.create_task(hold())
        await asyncio.create_task(hold())
    label = ("hold",)
    assert stalls.counts[label] == 2
    assert stalls.seconds[label] >= 2 * HELD_S


async def test_a_reader_that_holds_it_is_counted_by_its_class() -> None:
    stalls, has_heard = LoopStalls(), asyncio.Event()
    server = await asyncio.get_running_loop().create_server(
        lambda: HoldingReader(has_heard), "127.0.0.1", 0
    )
    with stalls.count():
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"some")
        await has_heard.wait()
        # its callback is over, and was counted, before the next one runs
        await asyncio.sleep(0)
    writer.close()
    server.close()
    assert (f"{__name__}.HoldingReader",) in stalls.counts


async def test_what_waits_is_not_counted() -> None:
    stalls = LoopStalls()

    async def wait_long() -> None:
        await asyncio.sleep(HELD_S)

    with stalls.count():
        await asyncio.create_task(wait_long())
    assert not [name for (name,) in stalls.counts if "wait_long" in name]


async def test_the_collector_is_counted_apart() -> None:
    stalls = LoopStalls()

    async def collect() -> None:
        gc.collect()

    with stalls.count():
        # after the count's own callback, so that it takes this time for the collector's
        gc.callbacks.append(lambda _phase, _info: hold_now())
        await asyncio.create_task(collect())
        gc.callbacks.pop()
    assert stalls.counts[COLLECTOR,] == 1
    assert stalls.seconds[COLLECTOR,] >= HELD_S


def test_each_loop_has_its_own() -> None:
    async def count(other: LoopStalls) -> LoopStalls:
        stalls = LoopStalls()
        with stalls.count():
            await asyncio.to_thread(asyncio.run, hold_counted(other))
        return stalls

    async def hold_counted(stalls: LoopStalls) -> None:
        with stalls.count():
            await asyncio.create_task(hold())

    other = LoopStalls()
    own = asyncio.run(count(other))
    label = ("hold",)
    assert (other.counts[label], label in own.counts) == (1, False)


async def test_in_whatever_order_they_end_asyncio_is_as_before() -> None:
    before: Callable[[asyncio.Handle], None] = asyncio.Handle._run
    callbacks = list(gc.callbacks)
    first, second = LoopStalls(), LoopStalls()
    first_count, second_count = first.count(), second.count()
    first_count.__enter__()
    second_count.__enter__()
    first_count.__exit__(None, None, None)
    await asyncio.create_task(hold())
    second_count.__exit__(None, None, None)
    label = ("hold",)
    assert (label in first.counts, second.counts[label]) == (False, 1)
    assert asyncio.Handle._run is before
    assert gc.callbacks == callbacks


async def test_names_are_bounded() -> None:
    stalls, loop = LoopStalls(), asyncio.get_running_loop()
    with stalls.count():
        for number in range(MAX_NAMES + 5):
            stalls.on_stall(loop, f"function {number}", STALL_S)
    assert len(stalls.counts) == MAX_NAMES + 1
    assert stalls.counts["other",] == 5
