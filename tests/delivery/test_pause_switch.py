import asyncio

import pytest

from router.delivery.consume.outages import PauseSwitch


@pytest.fixture
def changes() -> list[str | None]:
    return []


@pytest.fixture
def pause_switch(changes: list[str | None]) -> PauseSwitch:
    return PauseSwitch(changes.append)


def test_an_open_switch_has_no_cause(pause_switch: PauseSwitch) -> None:
    assert (pause_switch.is_open, pause_switch.cause) == (True, None)


def test_it_is_open_only_when_everyone_who_closed_it_has_opened_it(
    pause_switch: PauseSwitch, changes: list[str | None]
) -> None:
    pause_switch.close("publishing", "full")
    pause_switch.close("attempts", "down")
    pause_switch.open("publishing")
    assert (pause_switch.is_open, pause_switch.cause) == (False, "down")
    pause_switch.open("attempts")
    assert (pause_switch.is_open, pause_switch.cause) == (True, None)
    assert changes == ["full", None]


def test_opening_what_was_never_closed_changes_nothing(
    pause_switch: PauseSwitch, changes: list[str | None]
) -> None:
    pause_switch.open("attempts")
    pause_switch.close("publishing", "full")
    pause_switch.open("attempts")
    assert (pause_switch.is_open, changes) == (False, ["full"])


def test_a_reset_opens_it_whatever_had_closed_it(
    pause_switch: PauseSwitch, changes: list[str | None]
) -> None:
    pause_switch.close("publishing", "full")
    pause_switch.close("attempts", "down")
    pause_switch.reset()
    pause_switch.reset()
    assert (pause_switch.is_open, changes) == (True, ["full", None])


async def test_who_waits_goes_on_when_it_opens_and_not_before(pause_switch: PauseSwitch) -> None:
    pause_switch.close("publishing", "full")
    waiting = asyncio.create_task(pause_switch.wait())
    await asyncio.wait({waiting}, timeout=0.01)
    assert not waiting.done()
    pause_switch.open("publishing")
    async with asyncio.timeout(30):
        await waiting
