"""Issue 3, story 1: killed anywhere between a result's delivery and its acknowledgement, each result is one usage event."""

import asyncio

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.circle import a_result, headers_of, report, results_are_settled, usage
from tests.support.kills import Plan, Row, Victim, a_server, counted, killed, publish, table
from tests.support.service import names_for, settings_for
from tests.support.stories import letters, make_topology
from tests.support.waiting import until

POINTS = ("before_publish", "after_publish", "after_commit", "after_ack")
CONTROL = "control: acknowledged before it is stored"
ACK_WAIT_MS = 500
NOTE = f"Acknowledgements are waited for {ACK_WAIT_MS} ms; all other settings are the defaults."

ALL = Plan(POINTS, at_point=1, at_random=1, share=50)  # in one story: a start is what costs
LONG = [Plan(point, at_point=6, at_random=4, share=100) for point in POINTS]
LONG_AT_RANDOM = Plan(None, at_point=0, at_random=10, share=100)
LOSING = Plan("before_publish", at_point=2, at_random=0, share=10)


class HastyLane(Victim):
    command = ("tests.support.hasty_lane",)


@pytest.mark.timeout(180)
@pytest.mark.slow  # seven deaths and restarts of a process
async def test_a_result_is_metered_once_wherever_the_router_is_killed() -> None:
    """Fifty results a life, a kill at each point and one at random; the long table kills ten times a line."""
    row = await _story(ALL, "everywhere")
    print(_table([row]))
    assert row.is_exact, row


async def test_the_ledger_sees_what_a_lane_loses_that_acknowledges_first() -> None:
    """The control: one lost for each kill."""
    row = await _story(LOSING, CONTROL, HastyLane)
    print(_table([row]))
    assert (row.lost, row.double) == (LOSING.at_point, 0)


@pytest.mark.matrix
@pytest.mark.slow  # a thousand results and ten kills a line
async def test_a_thousand_results_at_every_point_and_kills_at_random_on_top() -> None:
    """The whole table; it is kept in bench/results."""
    rows = [await _story(plan, f"{plan.point} 6 ×, at random 4 ×") for plan in LONG]
    rows.append(await _story(LONG_AT_RANDOM, "at random"))
    control = await _story(LOSING, CONTROL, HastyLane)
    print(_table([*rows, control]))
    publish("kill_results", "A result is metered once, whatever dies when", _table([*rows, control]), NOTE)
    assert all(row.is_exact for row in rows), rows
    assert control.lost


async def _story(plan: Plan, label: str, lane: type[Victim] = Victim) -> Row:
    async with a_server() as (url, nc):
        settings = settings_for(url, results__ack_wait_ms=ACK_WAIT_MS)
        await make_topology(settings)
        victim = lane({**names_for(url, "t"), "results.ack_wait_ms": ACK_WAIT_MS})
        try:
            await killed(victim, plan, lambda share: _told(nc, settings, share))
            await until(lambda: results_are_settled(nc, settings), within_s=30)
            if lane is HastyLane:
                await until(lambda: _is_stored(nc, settings, plan.messages - plan.at_point))
        finally:
            victim.remove()
        metered = [str(event["assignment_id"]) for event in await usage(nc, settings)]
        return counted(plan, label, _ids(range(plan.messages)), metered, len(await letters(nc, settings)))


async def _told(nc: Client, settings: Settings, share: range) -> None:
    await asyncio.gather(*(report(nc, settings, a_result(number), headers_of(number)) for number in share))


async def _is_stored(nc: Client, settings: Settings, count: int) -> bool:
    """Whether the last event is stored; the side that acks first does not wait for it."""
    return (await nc.jsm().stream_info(settings.streams.usage.name)).state.messages >= count


def _ids(numbers: range) -> list[str]:
    return [f"a-{number}" for number in numbers]


def _table(rows: list[Row]) -> str:
    return table(rows, "results", "usage events")
