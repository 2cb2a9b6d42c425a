"""A rolling restart: in order, one at a time, remembered, and harmless when something is wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from router.config import Settings
from router.core.errors import Misconfigured
from router.serve.fleet.fleet import Reload
from router.serve.fleet.process_slot import ProcessSlot
from tests.support.beside import beside
from tests.support.observability import LogLines, capture_log
from tests.support.waiting import until


class FakeSlot:
    """A slot whose replacement takes as long as the test wants it to."""

    def __init__(self, name: str, diary: list[str], refusal: str | None = None) -> None:
        self.name = name
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.settings: Settings | None = None
        self._diary = diary
        self._refusal = refusal

    async def replace(self, settings: Settings) -> str | None:
        self.settings = settings
        self._diary.append(f"{self.name} begins")
        await self.may_go_on.wait()
        self._diary.append(f"{self.name} ends")
        return self._refusal

    def terminate(self) -> None:
        self._diary.append(f"{self.name} terminated")


@asynccontextmanager
async def reloading(
    slots: list[FakeSlot], read: Callable[[], Settings] = Settings
) -> AsyncIterator[asyncio.Event]:
    requested = asyncio.Event()
    async with beside(Reload(requested, read).run(cast(list[ProcessSlot], slots))):
        yield requested


async def test_one_slot_after_the_other_and_requests_meanwhile_cause_one_more_reload() -> None:
    diary: list[str] = []
    slots = [FakeSlot(name, diary) for name in "ab"]
    slots[1].may_go_on.clear()
    async with reloading(slots) as requested:
        requested.set()
        await until(lambda: diary == ["a begins", "a ends", "b begins"])
        requested.set()
        requested.set()
        slots[1].may_go_on.set()
        await until(lambda: diary.count("b ends") == 2)
        assert diary == ["a begins", "a ends", "b begins", "b ends"] * 2


async def test_each_reload_reads_the_settings_anew() -> None:
    named = iter(("first", "second"))
    slot = FakeSlot("a", [])
    async with reloading([slot], lambda: Settings(node_id=next(named))) as requested:
        for name in ("first", "second"):
            requested.set()
            await until(
                lambda name=name: slot.settings is not None and slot.settings.node_id == name
            )  # type: ignore[misc]


async def test_illegal_settings_are_logged_and_no_process_is_replaced() -> None:
    diary: list[str] = []

    def read() -> Settings:
        diary.append("read")
        raise Misconfigured("decide.prefetch", "0 is not legal")

    with capture_log() as lines:
        async with reloading([FakeSlot("a", diary)], read) as requested:
            requested.set()
            await until(lambda: diary)
            requested.set()  # it goes on listening
            await until(lambda: diary == ["read", "read"])
            assert [(line["event"], line["error"]) for line in lines.all()] == [
                ("reload.refused", "decide.prefetch: 0 is not legal")
            ] * 2


def said(lines: LogLines) -> int:
    """Refusals that were logged; what another test left behind may log too, in this process."""
    return sum(line["event"] == "reload.refused" for line in lines.all())


async def test_settings_that_cannot_be_read_at_all_refuse_the_reload_and_do_not_end_it() -> None:
    with capture_log() as lines:
        async with reloading(
            [FakeSlot("a", [])], lambda: Settings(node_id=b"\xff".decode())
        ) as requested:
            for times in (1, 2):
                requested.set()
                await until(lambda times=times: said(lines) >= times)  # type: ignore[misc]
        assert said(lines) == 2


async def test_a_process_that_does_not_get_ready_keeps_the_slots_after_it_as_they_are() -> None:
    diary: list[str] = []
    with capture_log() as lines:
        async with reloading(
            [FakeSlot("a", diary, "it says no"), FakeSlot("b", diary)]
        ) as requested:
            requested.set()
            await until(lambda: "a ends" in diary)
            await until(lambda: lines.all()[-1]["event"] == "reload.refused")
            assert lines.all()[-1]["process"] == "a"
        assert diary == ["a begins", "a ends", "a terminated", "b terminated"]


async def test_a_shutdown_terminates_every_slot_at_once_even_during_a_replacement() -> None:
    diary: list[str] = []
    slots = [FakeSlot(name, diary) for name in "ab"]
    slots[0].may_go_on.clear()
    async with reloading(slots) as requested:
        requested.set()
        await until(lambda: diary)
    assert diary == ["a begins", "a terminated", "b terminated"]
