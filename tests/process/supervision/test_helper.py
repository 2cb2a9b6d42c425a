"""A helper fails as often as it likes: its supervisor's restarts are for those that the process
cannot do without.
"""

import asyncio

import pytest

from router.core.errors import Misconfigured
from router.process.supervision import (
    PAUSES_S,
    STABLE_AFTER_S,
    Helper,
    Intensity,
    Supervisor,
    helper_states,
)
from tests.support.observability import capture_log
from tests.support.supervision import run_tree

ONCE = Intensity(restarts=0)


class Time:
    """A clock that pauses move; `rested` is set after so many of them."""

    def __init__(self, until: int) -> None:
        self.now = 0.0
        self.rests: list[float] = []
        self.rested = asyncio.Event()
        self._until = until

    def clock(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds
        if len(self.rests) == self._until:
            self.rested.set()
            await asyncio.Event().wait()


async def test_a_helper_that_always_fails_ends_no_supervisor_and_floods_no_log() -> None:
    time = Time(until=50)

    async def run() -> None:
        raise RuntimeError("geheim")

    helper = Helper("gauges", run, clock=time.clock, pause=time.pause)
    with capture_log("error") as lines:
        async with run_tree(Supervisor("root", (helper.child,), intensity=ONCE)) as tree:
            await asyncio.wait_for(time.rested.wait(), 60)
            assert not tree.done()
    assert tuple(time.rests[: len(PAUSES_S)]) == PAUSES_S
    assert set(time.rests[len(PAUSES_S) :]) == {PAUSES_S[-1]}
    assert helper_states([helper]) == {("gauges",): 1}
    causes = [line["cause"] for line in lines.all()]
    assert set(causes) == {"RuntimeError"}
    assert len(causes) <= 1 + time.now / 60


async def test_a_helper_that_works_again_is_not_failing_and_its_rests_begin_anew() -> None:
    time = Time(until=4)
    lives = iter((0.0, 0.0, PAUSES_S[1] + STABLE_AFTER_S + 1, 0.0))  # how long each start works
    seen: list[bool] = []

    async def run() -> None:
        time.now += next(lives)
        seen.append(helper.is_failing)
        raise RuntimeError

    helper = Helper("gauges", run, clock=time.clock, pause=time.pause)
    async with run_tree(Supervisor("root", (helper.child,), intensity=ONCE)):
        await asyncio.wait_for(time.rested.wait(), 60)
    assert time.rests == [PAUSES_S[0], PAUSES_S[1], PAUSES_S[0], PAUSES_S[1]]
    assert seen == [False, True, False, True]


async def test_what_a_setting_is_guilty_of_climbs() -> None:
    async def run() -> None:
        raise Misconfigured("http_port", "taken")

    with pytest.raises(Misconfigured):
        await Helper("http", run).run()
