"""The same request again: each time it is asked there is one answer, always the same one, and none
goes astray.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client

from router.config import Settings, load
from tests.support.service import RouterProcess, a_router, names_for
from tests.support.stories import SILENCE_S, Inboxes, MessageRecorder, a_request, read_metric
from tests.support.waiting import until

APART_S = 0.8
STOOD_STILL_S = 0.5
# a busy server may tell of a request's inbox after its answer
PATIENT = {"reply.inbox_wait_ms": 10_000}
# far beyond the 0.22 s in which one answer goes to all who asked: an instance may hear the first
# late
BEYOND_WINDOW_S = 0.75


class Asked:
    """One request, asked several times, each time from an inbox of its own."""

    def __init__(
        self, nc: Client, settings: Settings, inboxes: Inboxes, strays: MessageRecorder
    ) -> None:
        self._nc, self._settings = nc, settings
        self.inboxes, self.strays = inboxes, strays
        self.times = 0
        self.routers = 1

    async def again(self, body: bytes | None = None, **headers: str) -> None:
        await self.inboxes.publish(
            self._nc,
            self._settings,
            self.times,
            body or a_request("same"),
            **{"Nats_Msg_Id": "same", **headers},
        )
        self.times += 1

    async def answered(self, *, times: int | None = None) -> None:
        await until(
            lambda: len(self.inboxes) >= (times or self.times), what="an answer for each time"
        )

    async def has_one_equal_answer_each(self) -> None:
        await self.answered()
        await asyncio.sleep(SILENCE_S)
        counts = self.inboxes.counts
        assert set(counts) == {self.inboxes.of(n) for n in range(self.times)}
        # one that stood still may hear of it when the other has answered
        assert max(counts.values()) <= self.routers
        assert self.strays.counts == {}
        (answer,) = {answer for answers in self.inboxes.heard.values() for answer in answers}
        assert json.loads(answer)["ok"] is True


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    return load(None, {**names_for(nats_url, prefix), **PATIENT}, {}).settings


@pytest.fixture
async def asked(nc: Client, settings: Settings, prefix: str) -> Asked:
    return Asked(
        nc,
        settings,
        await Inboxes.under(nc, prefix),
        await MessageRecorder.on(nc, f"{settings.decide.subject}.reply"),
    )


@pytest.fixture(params=[1, 2], ids=["one-router", "two-routers"])
async def routers(
    settings: Settings, asked: Asked, request: pytest.FixtureRequest
) -> AsyncIterator[None]:
    asked.routers = request.param
    async with AsyncExitStack() as stack:
        for _ in range(request.param):
            await stack.enter_async_context(a_router(settings))
        yield


@pytest.mark.usefixtures("routers")
class TestEveryTime:
    async def test_twice(self, asked: Asked) -> None:
        """Story 8: sent twice, one after the other."""
        await asked.again()
        await asked.answered()
        await asyncio.sleep(BEYOND_WINDOW_S)
        await asked.again()
        await asked.has_one_equal_answer_each()

    async def test_concurrently(self, asked: Asked) -> None:
        """Story 8: three at once; the stream keeps one."""
        await asyncio.gather(*(asked.again() for _ in range(3)))
        await asked.has_one_equal_answer_each()

    async def test_within_the_window(self, asked: Asked) -> None:
        """Story 8: again as soon as the first is answered, when the stream drops it."""
        await asked.again()
        await asked.answered()
        await asked.again()
        await asked.has_one_equal_answer_each()

    async def test_five_times_with_pauses(self, asked: Asked) -> None:
        """Story 8: 0.8 s apart, five times; each is stored, and each may be decided by another
        instance.
        """
        for _ in range(5):
            await asked.again()
            await asyncio.sleep(APART_S)
        await asked.has_one_equal_answer_each()


async def test_the_same_id_with_other_bytes_is_refused(asked: Asked, settings: Settings) -> None:
    """Story 8: `invalid_request`, within the window, where the stream drops it, and later, where it
    is stored.
    """
    async with a_router(settings):
        await asked.again()
        await asked.answered()
        await asked.again(a_request("same", context={"other": "bytes"}))
        await asked.answered()
        await asyncio.sleep(BEYOND_WINDOW_S)
        await asked.again(a_request("same", context={"other": "bytes"}))
        await asked.again(a_request("same", context={"yet": "others"}), Nats_Msg_Id="another")
        await asked.answered()
        await asyncio.sleep(SILENCE_S)

        assert asked.inboxes.counts == {asked.inboxes.of(n): 1 for n in range(4)}
        assert asked.strays.counts == {}
        first, *others = (json.loads(asked.inboxes.answers(n)[0]) for n in range(4))
        assert first["ok"] is True
        assert [other["error"]["code"] for other in others] == ["invalid_request"] * 3


@pytest.fixture
def processes(nats_url: str, prefix: str) -> Iterator[list[RouterProcess]]:
    names = {**names_for(nats_url, prefix), **PATIENT}
    with RouterProcess(names) as one, RouterProcess(names) as other:
        yield [one, other]


async def test_after_the_instance_that_answered_was_killed(
    asked: Asked, processes: list[RouterProcess]
) -> None:
    """Story 8: the other one knows nothing of the first answer, and gives the same."""
    asked.routers = 2
    await asked.again()
    await asked.answered()
    for process in processes:  # it has heard who asked: its turn is over
        await read_metric(process.ready["http"], "router_jetstream_ack_total")
    await asyncio.sleep(BEYOND_WINDOW_S)
    decided = [
        await read_metric(process.ready["http"], "router_jetstream_ack_total")
        for process in processes
    ]
    assert sorted(decided) == [0, 1]
    processes[decided.index(1)].kill()
    await asked.again()
    await asked.has_one_equal_answer_each()


async def test_again_within_the_window_to_a_router_that_stood_still(
    asked: Asked, nats_url: str, prefix: str
) -> None:
    """Story 8: the stream drops the repeat, and the router hears it half a second later."""
    with RouterProcess({**names_for(nats_url, prefix), **PATIENT}) as process:
        await asked.again()
        await asked.answered()
        process.pause()
        await asked.again()
        await asyncio.sleep(STOOD_STILL_S)
        process.unpause()
        await asked.has_one_equal_answer_each()
