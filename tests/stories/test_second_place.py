"""A place that is lost, and its mirrors promoted in a second one: nothing is stored twice
(docs/how-to/two-places.md#promotion).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.operate.recovery import promotion
from router.sdk import StepResult, Worker
from tests.support.beside import beside
from tests.support.pages import commands_of
from tests.support.places import (
    PAGE,
    Place,
    Places,
    client_at,
    is_mirrored,
    settings_at,
    two_places,
    type_command,
    type_commands,
)
from tests.support.router_streams import (
    a_result,
    headers_of,
    publish_result,
    read_stream,
    read_usage,
    results_are_settled,
)
from tests.support.service import a_router
from tests.support.stories import Inboxes, a_request, ask, is_settled, read_dead_letters
from tests.support.waiting import until

PUSHED, METERED = 6, 5
LOAD, IN_FLIGHT = 200, 8  # requests


MIRROR, PROMOTE, APPLY = commands_of(PAGE, "promotion")


# slow: three servers start twice
ON_THREE = pytest.param(True, id="three servers", marks=(pytest.mark.matrix, pytest.mark.slow))


@pytest.mark.parametrize("is_cluster", [pytest.param(False, id="one server"), ON_THREE])
async def test_a_promoted_place_handles_what_was_stored_again_and_nothing_comes_twice(
    is_cluster: bool,
) -> None:
    """Requests, results, usage events and a dead letter are mirrored; the hub dies; the durables
    begin again in the second place.
    """
    async with two_places(is_cluster=is_cluster) as places:
        answers = await _work_at_the_hub(places)
        await _promote(places)
        await _check_the_ledger(places, answers)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize("kill_after", [40, 90, 150])
async def test_a_hub_that_dies_under_load_leaves_a_ledger_that_balances(kill_after: int) -> None:
    """Requests are pushed, worked on and metered when the hub dies; who had no answer asks again.
    Slow: so many requests are asked.
    """
    async with two_places() as places:
        settings = settings_at(places.hub)
        async with client_at(places.hub) as nc, a_router(settings), _worker_at(places.hub):
            await type_commands(places.second, MIRROR)
            inboxes = await Inboxes.under(nc, "first")
            await _ask_in_turn(nc, settings, inboxes, range(1))
            async with client_at(places.second) as second:
                await until(
                    lambda: is_mirrored(nc, second, settings), what="every message in its mirror"
                )
            await _ask_in_turn(nc, settings, inboxes, range(1, kill_after))
            places.hub.kill()
            answered = {number for number in range(kill_after) if inboxes.answers(number)}
        await _promote(places, states={"promoted"})
        settings = settings_at(places.second)
        async with client_at(places.second) as nc, a_router(settings), _worker_at(places.second):
            again = [number for number in range(LOAD) if number not in answered]
            for number in again:
                assert (await ask(nc, settings, a_request(number, push_assignment=True)))[
                    "ok"
                ] is True
            expected = {f"r-{number}" for number in again}
            await until(lambda: _has_usage_of_each(nc, settings, expected), within_s=60)
            await until(lambda: _is_all_metered(nc, settings), within_s=60)
            usage, assignments = (
                await _count_usage(nc, settings),
                await _count_assignments(nc, settings),
            )
        lost = {f"r-{number}" for number in answered} - set(usage)
        print(
            f"asked {kill_after} before, answered {len(answered)}; of those the mirrors "
            f"lacked {len(lost)}"
        )
        assert set(usage.values()) == {1}
        assert set(assignments.values()) == {1}
        assert set(usage) == set(assignments) >= expected


async def test_what_the_mirrors_lack_is_metered_from_the_results_or_asked_again() -> None:
    """The mirror of usage events has none of them, and two requests came after the connection was
    cut.
    """
    async with two_places() as places:
        answers = await _work_at_the_hub(places)
        settings = settings_at(places.hub)
        async with client_at(places.second) as nc:
            await nc.jsm().delete_stream(settings.streams.usage.name)
        places.way.cut()
        async with client_at(places.hub) as nc, a_router(settings):
            for name in ("late-1", "late-2"):
                assert (await ask(nc, settings, a_request(name, push_assignment=True)))[
                    "ok"
                ] is True
        await _promote(places, states={"promoted", "made"})
        await _check_the_ledger(places, answers)
        async with client_at(places.second) as nc, a_router(settings_at(places.second)):
            for name in ("late-1", "late-2"):
                assert (await ask(nc, settings, a_request(name, push_assignment=True)))[
                    "ok"
                ] is True
            counts = await _count_assignments(nc, settings)
            assert {counts["r-late-1"], counts["r-late-2"], *counts.values()} == {1}


async def test_a_promotion_without_a_restart_of_the_servers_stores_effects_again() -> None:
    """The control: a mirror's ids are read when its server starts, not when it is promoted."""
    async with two_places() as places:
        await _work_at_the_hub(places)
        places.hub.kill()
        await type_commands(places.second, PROMOTE)
        settings = settings_at(places.second)
        async with client_at(places.second) as nc, a_router(settings):
            await until(lambda: results_are_settled(nc, settings))
            assert set((await _count_usage(nc, settings)).values()) == {2}


async def test_a_promotion_is_refused_while_the_mirrored_place_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(promotion, "ANSWER_S", 60.0)  # however busy the machine is
    async with two_places() as places:
        await _work_at_the_hub(places)
        refused = await type_command(places.second, *PROMOTE)
        assert refused.status == 1
        assert "is not lost" in refused.err
        async with client_at(places.second) as nc:
            info = await nc.jsm().stream_info(settings_at(places.second).streams.usage.name)
            assert info.config.mirror is not None


async def _work_at_the_hub(places: Places) -> dict[str, str]:
    """The providers that were chosen, by request. Returns when all of it is in the mirrors."""
    settings = settings_at(places.hub)
    async with client_at(places.hub) as nc, a_router(settings):
        await type_commands(places.second, MIRROR)
        answers = {}
        for number in range(PUSHED):
            answer = await ask(nc, settings, a_request(number, push_assignment=True))
            answers[f"{number}"] = answer["decision"]["provider_id"]
        for number in range(METERED):
            await publish_result(nc, settings, a_result(number), headers_of(number))
        await publish_result(nc, settings, b"{", headers_of("broken"))
        await until(lambda: read_dead_letters(nc, settings))
        await until(lambda: results_are_settled(nc, settings))
        async with client_at(places.second) as second:
            await until(
                lambda: is_mirrored(nc, second, settings), what="every message in its mirror"
            )
    return answers


async def _promote(
    places: Places, states: frozenset[str] | set[str] = frozenset({"promoted"})
) -> None:
    """The steps of the page, after the hub is gone."""
    places.hub.kill()
    promoted = await type_command(places.second, *PROMOTE, "--json")
    assert promoted.status == 0, promoted.err
    assert {one["state"] for one in promoted.lines} == states
    await places.restart_second()
    again = await type_command(places.second, *PROMOTE, "--json")  # it may be given again
    assert {one["state"] for one in again.lines} == {"is ours"}


async def _check_the_ledger(places: Places, answers: dict[str, str]) -> None:
    settings = settings_at(places.second)
    async with client_at(places.second) as nc, a_router(settings):
        await until(lambda: results_are_settled(nc, settings))
        await until(lambda: is_settled(nc, settings))
        assert await _count_usage(nc, settings) == {f"r-{number}": 1 for number in range(METERED)}
        assert len(await read_dead_letters(nc, settings)) == 1
        assert await _count_assignments(nc, settings) == {
            f"r-{number}": 1 for number in range(PUSHED)
        }

        for number, provider in answers.items():
            asked_again = await ask(nc, settings, a_request(number, push_assignment=True))
            assert asked_again["decision"]["provider_id"] == provider
        inboxes = await Inboxes.under(nc, "new")
        await inboxes.publish(nc, settings, "new", a_request("new", push_assignment=True))
        await until(lambda: inboxes.answers("new"))
        assert [json.loads(one)["ok"] for one in inboxes.answers("new")] == [True]
        await publish_result(nc, settings, a_result("new"), headers_of("new"))
        await until(lambda: _has_usage_of(nc, settings, "r-new"))
        assert set((await _count_usage(nc, settings)).values()) == {1}
        assert await _count_assignments(nc, settings) == {
            f"r-{name}": 1 for name in (*range(PUSHED), "new")
        }

        await type_commands(places.second, APPLY)
        window = (await nc.jsm().stream_info(settings.streams.usage.name)).config.duplicate_window
        assert window == settings.streams.usage.duplicate_window_ms / 1000


async def _count_usage(nc: Client, settings: Settings) -> dict[str, int]:
    return dict(Counter(event["request_id"] for event in await read_usage(nc, settings)))


async def _ask_in_turn(nc: Client, settings: Settings, inboxes: Inboxes, numbers: range) -> None:
    """A few at a time: a request is asked when the one eight places before it has its answer.
    Returns before the last ones have theirs.
    """
    for number in numbers:
        await until(lambda before=number - IN_FLIGHT: before < 0 or inboxes.answers(before))
        await inboxes.publish_named(nc, settings, number, a_request(number, push_assignment=True))


async def _has_usage_of_each(nc: Client, settings: Settings, requests: set[str]) -> bool:
    return requests <= set(await _count_usage(nc, settings))


async def _is_all_metered(nc: Client, settings: Settings) -> bool:
    """Whether each assignment has its usage event, and the durables have nothing left to do."""
    is_over = await results_are_settled(nc, settings) and await is_settled(nc, settings)
    return is_over and set(await _count_usage(nc, settings)) == set(
        await _count_assignments(nc, settings)
    )


@asynccontextmanager
async def _worker_at(place: Place) -> AsyncIterator[None]:
    async with beside(
        Worker(
            place.url, lambda _: StepResult(output="done"), worker_id="w-1", durable="caf-worker"
        ).work()
    ):
        yield


async def _has_usage_of(nc: Client, settings: Settings, request_id: str) -> bool:
    return request_id in await _count_usage(nc, settings)


async def _count_assignments(nc: Client, settings: Settings) -> dict[str, int]:
    stored = await read_stream(nc, settings.streams.assignments.name)
    return dict(Counter(json.loads(data)["request_id"] for _, data, _ in stored))
