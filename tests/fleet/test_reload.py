"""A rolling restart: in order, one at a time, remembered, and harmless when something is wrong."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from router.config import Settings
from router.errors import Misconfigured
from router.fleet.reload import Reload
from router.fleet.seat import Seat
from tests.support.observability import Lines, captured
from tests.support.waiting import until


class FakeSeat:
    """A seat whose renewal takes as long as the test wants it to."""

    def __init__(self, name: str, diary: list[str], refusal: str | None = None) -> None:
        self.name = name
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.settings: Settings | None = None
        self._diary = diary
        self._refusal = refusal

    async def renew(self, settings: Settings) -> str | None:
        self.settings = settings
        self._diary.append(f"{self.name} begins")
        await self.may_go_on.wait()
        self._diary.append(f"{self.name} ends")
        return self._refusal

    def tell(self) -> None:
        self._diary.append(f"{self.name} told")


@asynccontextmanager
async def reloading(seats: list[FakeSeat], read: Callable[[], Settings] = Settings) -> AsyncIterator[asyncio.Event]:
    asked = asyncio.Event()
    task = asyncio.create_task(Reload(asked, read).run(cast(list[Seat], seats)))
    try:
        yield asked
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_one_seat_after_the_other_and_what_is_asked_meanwhile_comes_afterwards_once() -> None:
    diary: list[str] = []
    seats = [FakeSeat(name, diary) for name in "ab"]
    seats[1].may_go_on.clear()
    async with reloading(seats) as asked:
        asked.set()
        await until(lambda: diary == ["a begins", "a ends", "b begins"])
        asked.set()
        asked.set()
        seats[1].may_go_on.set()
        await until(lambda: diary.count("b ends") == 2)
        assert diary == ["a begins", "a ends", "b begins", "b ends"] * 2


async def test_each_reload_reads_the_settings_anew() -> None:
    named = iter(("first", "second"))
    seat = FakeSeat("a", [])
    async with reloading([seat], lambda: Settings(node_id=next(named))) as asked:
        for name in ("first", "second"):
            asked.set()
            await until(lambda name=name: seat.settings is not None and seat.settings.node_id == name)  # type: ignore[misc]


async def test_settings_that_are_wrong_are_told_and_nothing_is_renewed() -> None:
    diary: list[str] = []

    def read() -> Settings:
        diary.append("read")
        raise Misconfigured("decide.prefetch", "0 is not legal")

    with captured() as lines:
        async with reloading([FakeSeat("a", diary)], read) as asked:
            asked.set()
            await until(lambda: diary)
            asked.set()  # it goes on listening
            await until(lambda: diary == ["read", "read"])
            assert [(line["event"], line["error"]) for line in lines.all()] == [("reload.refused", "decide.prefetch: 0 is not legal")] * 2


def said(lines: Lines) -> int:
    """Refusals that were logged; what another test left behind may log too, in this process."""
    return sum(line["event"] == "reload.refused" for line in lines.all())


async def test_settings_that_cannot_be_read_at_all_refuse_the_reload_and_do_not_end_it() -> None:
    with captured() as lines:
        async with reloading([FakeSeat("a", [])], lambda: Settings(node_id=b"\xff".decode())) as asked:
            for times in (1, 2):
                asked.set()
                await until(lambda times=times: said(lines) >= times)  # type: ignore[misc]
        assert said(lines) == 2


async def test_a_process_that_does_not_get_ready_keeps_the_seats_after_it_as_they_are() -> None:
    diary: list[str] = []
    with captured() as lines:
        async with reloading([FakeSeat("a", diary, "it says no"), FakeSeat("b", diary)]) as asked:
            asked.set()
            await until(lambda: "a ends" in diary)
            await until(lambda: lines.all()[-1]["event"] == "reload.refused")
            assert lines.all()[-1]["worker"] == "a"
        assert diary == ["a begins", "a ends", "a told", "b told"]


async def test_the_end_tells_every_seat_at_once_even_amid_a_renewal() -> None:
    diary: list[str] = []
    seats = [FakeSeat(name, diary) for name in "ab"]
    seats[0].may_go_on.clear()
    async with reloading(seats) as asked:
        asked.set()
        await until(lambda: diary)
    assert diary == ["a begins", "a told", "b told"]
