"""Large messages begin one in a turn of the loop, tenants in turn, and after the small ones that
wait behind them in the socket.
"""

import asyncio

import pytest

from router.core.message import Message
from router.core.outcome import Done, Outcome
from router.delivery.consume import in_flight
from router.delivery.consume.in_flight import LARGE_BYTES, MOST_TURNS
from tests.support.delivery import ProcessorBench, a_processor
from tests.support.waiting import until

LARGE = b"x" * LARGE_BYTES
NAK_AT_ONCE = b'-NAK {"delay": 10000000}'


class SequenceRecorder:
    def __init__(self) -> None:
        self.begun: list[int] = []

    def __call__(self, message: Message) -> Outcome:
        self.begun.append(message.sequence)
        return Done()


async def test_a_small_message_is_begun_before_the_large_ones_that_came_first() -> None:
    handler = SequenceRecorder()
    async with a_processor(handler) as bench:
        for sequence in (1, 2):
            bench.take(sequence, data=LARGE)
        bench.take(3, data=LARGE[1:])
        assert handler.begun == [3]
        await asyncio.sleep(0)
        assert handler.begun == [3, 1]  # one in a turn
        await asyncio.sleep(0)
        assert handler.begun == [3, 1, 2]
        assert [bench.acks(sequence) for sequence in (1, 2, 3)] == [[b"+ACK"]] * 3
        assert not len(bench.processor.in_flight)


async def test_tenants_begin_in_turn_and_pay_for_what_theirs_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, begun = 0.0, list[str]()

    def handle(message: Message) -> Outcome:
        nonlocal now
        tenant = message.headers["tenant_id"]
        begun.append(tenant)
        now += {"slow": 0.5, "quick": 0.01}[tenant]
        return Done()

    monkeypatch.setattr(in_flight, "steady", lambda: now)
    async with a_processor(handle) as bench:
        for sequence, tenant in enumerate(["slow"] * 3 + ["quick"] * 3, 1):
            bench.take(sequence, data=LARGE, headers={"tenant_id": tenant})
        await until(lambda: len(begun) == 6)
        for sequence, tenant in enumerate(["slow", "quick"], 7):
            bench.take(sequence, data=LARGE, headers={"tenant_id": tenant})
        await until(lambda: len(begun) == 8)
    assert begun[:6] == ["slow", "quick", "quick", "quick", "slow", "slow"]
    assert begun[6:] == ["slow", "quick"], "where none waited, none has a debt"


async def test_while_the_socket_holds_more_it_waits_for_so_many_turns_and_no_longer() -> None:
    handler = SequenceRecorder()
    async with a_processor(handler) as bench:
        bench.connection.is_behind = True
        for sequence in (1, 2):
            bench.take(sequence, data=LARGE)
            assert await _count_turns(bench, handler) == MOST_TURNS
        bench.take(3, data=LARGE)
        bench.connection.is_behind = False
        assert await _count_turns(bench, handler) == 1


async def test_what_waits_in_a_pause_begins_at_its_end_once() -> None:
    handler = SequenceRecorder()
    async with a_processor(handler) as bench:
        bench.take(1, data=LARGE)
        bench.pause_switch.close("test", "away")
        await asyncio.sleep(0)
        assert handler.begun == []
        bench.pause_switch.open("test")
        await asyncio.sleep(0)
        assert handler.begun == [1]


async def test_a_drain_hands_back_what_has_not_begun() -> None:
    handler = SequenceRecorder()
    async with a_processor(handler) as bench:
        bench.take(1, data=LARGE)
        bench.processor.stop_taking()
        await asyncio.sleep(0)
        assert (bench.acks(1), handler.begun, len(bench.processor.in_flight)) == (
            [NAK_AT_ONCE],
            [],
            0,
        )


async def _count_turns(bench: ProcessorBench, handler: SequenceRecorder) -> int:
    """Let the loop turn until one more message has begun."""
    before, turns = len(handler.begun), 0
    while len(handler.begun) == before:
        await asyncio.sleep(0)
        turns += 1
    return turns
