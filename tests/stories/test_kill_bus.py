"""Issue 7, the bus: killed anywhere between an event's delivery and its acknowledgement, each event has one effect."""

import asyncio
from pathlib import Path

import pytest

from router.sdk.bus import Bus
from tests.support.bus import a_bus, an_envelope, settled, stored_in
from tests.support.bus_projector import Projector, effects
from tests.support.kills import Plan, Row, a_server, counted, killed, publish, table

POINTS = ("bus_processed", "bus_marking", "bus_marked")
CONTROL = "control: the effect beside the mark"
NOTE = "The effect is a row in the SQLite file of the processed keys. Acknowledgements are waited for 0.5 s; all else is the default."

ALL = Plan(POINTS, at_point=1, at_random=1, share=60)  # in one story: a start is what costs
LONG = [Plan(point, at_point=6, at_random=4, share=100) for point in POINTS]
LONG_AT_RANDOM = Plan(None, at_point=0, at_random=20, share=100)
LITERAL = Plan("bus_processed", at_point=2, at_random=0, share=20)


@pytest.mark.timeout(180)
@pytest.mark.slow  # six deaths and restarts of a process
async def test_an_event_has_one_effect_wherever_its_consumer_is_killed(tmp_path: Path) -> None:
    """SR-24, X5, T1 for the bus: the mark and the effect are one transaction. A kill at each point and one at random."""
    row = await _story(ALL, "everywhere", tmp_path / "projector.db")
    print(_table([row]))
    assert row.is_exact, row


@pytest.mark.slow
async def test_the_order_taken_literally_doubles_what_a_crash_falls_into(tmp_path: Path) -> None:
    """SR-24, X5, the control: process, then mark, in two transactions; nothing is lost, and every kill doubles."""
    row = await _story(LITERAL, CONTROL, tmp_path / "projector.db", is_literal=True)
    print(_table([row]))
    assert row.lost == 0
    assert row.double >= LITERAL.at_point


@pytest.mark.matrix
@pytest.mark.slow  # a thousand events and ten kills a line
async def test_a_thousand_events_at_every_point_and_kills_at_random_on_top(tmp_path: Path) -> None:
    """The whole table; it is kept in bench/results."""
    rows = [await _story(plan, f"{plan.point} 6 ×, at random 4 ×", tmp_path / f"{plan.point}.db") for plan in LONG]
    rows.append(await _story(LONG_AT_RANDOM, "at random", tmp_path / "random.db"))
    control = await _story(LITERAL, CONTROL, tmp_path / "control.db", is_literal=True)
    print(_table([*rows, control]))
    publish("kill_bus", "An event has one effect, whatever dies when", _table([*rows, control]), NOTE)
    assert all(row.is_exact for row in rows), rows
    assert control.double


async def _story(plan: Plan, label: str, file: Path, *, is_literal: bool = False) -> Row:
    async with a_server() as (url, _), a_bus(url, "sr", consumer_prefix="sr-consumer") as bus:
        projector = Projector(url, file, is_literal=is_literal)
        try:
            await killed(projector, plan, lambda share: _published(bus, share))
            await settled(bus)
        finally:
            projector.remove()
        sent = [f"evt_{number}" for number in range(plan.messages)]
        return counted(plan, label, sent, effects(file), len(await stored_in(bus, "dlq")))


async def _published(bus: Bus, share: range) -> None:
    await asyncio.gather(*(bus.publisher.event(an_envelope(number)) for number in share))


def _table(rows: list[Row]) -> str:
    return table(rows, "events", "effects")
