import asyncio

import pytest

from router.delivery.pause_switch import PauseSwitch


@pytest.fixture
def changes() -> list[str | None]:
    return []


@pytest.fixture
def gate(changes: list[str | None]) -> PauseSwitch:
    return PauseSwitch(changes.append)


def test_an_open_gate_has_no_cause(gate: PauseSwitch) -> None:
    assert (gate.is_open, gate.cause) == (True, None)


def test_it_is_open_only_when_everyone_who_closed_it_has_opened_it(gate: PauseSwitch, changes: list[str | None]) -> None:
    gate.close("evidence", "full")
    gate.close("starts", "down")
    gate.open("evidence")
    assert (gate.is_open, gate.cause) == (False, "down")
    gate.open("starts")
    assert (gate.is_open, gate.cause) == (True, None)
    assert changes == ["full", None]


def test_opening_what_was_never_closed_changes_nothing(gate: PauseSwitch, changes: list[str | None]) -> None:
    gate.open("starts")
    gate.close("evidence", "full")
    gate.open("starts")
    assert (gate.is_open, changes) == (False, ["full"])


def test_a_reset_opens_it_whoever_had_closed_it(gate: PauseSwitch, changes: list[str | None]) -> None:
    gate.close("evidence", "full")
    gate.close("starts", "down")
    gate.reset()
    gate.reset()
    assert (gate.is_open, changes) == (True, ["full", None])


async def test_who_waits_goes_on_when_it_opens_and_not_before(gate: PauseSwitch) -> None:
    gate.close("evidence", "full")
    waiting = asyncio.create_task(gate.wait())
    await asyncio.wait({waiting}, timeout=0.01)
    assert not waiting.done()
    gate.open("evidence")
    async with asyncio.timeout(30):
        await waiting
