"""`router topology promote`, given again: no durable begins later than an earlier call let it
(docs/how-to/two-places.md#promotion).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import create
from router.operate.recovery.recovery_order import list_effect_streams
from router.operate.topology.declared_topology import declare_topology
from router.shell import exit_codes
from tests.support.delivery import connected
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
from tests.support.router_streams import a_result, headers_of, publish_result
from tests.support.waiting import until

MIRROR, PROMOTE, APPLY = commands_of(PAGE, "promotion")
PROMOTE_ALL = ("topology", "promote")  # without a worker's durable
HOUR_AGO = ("--since", "1h")
ASSIGNMENTS, RESULTS = 2, 3
GAP_S = 0.02  # at least so long after the others the newest result is stored


@pytest.fixture
async def places(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Places]:
    """The hub is lost. Unsettled assignments and results are in the mirrors, the newest of them a
    result.

    A start that is chosen lies just before the newest message: whatever is older is left out,
    without ten minutes of waiting.
    """
    monkeypatch.setattr("router.operate.recovery.promotion.LOOK_BACK", timedelta(seconds=GAP_S / 4))
    async with two_places() as places:
        await type_commands(places.hub, APPLY)
        await type_commands(places.second, MIRROR)
        await _store_unsettled(places)
        places.hub.kill()
        yield places


@pytest.mark.parametrize(
    "again", [PROMOTE, (*PROMOTE_ALL, "--since", "0s")], ids=["a forgotten worker", "a later start"]
)
@pytest.mark.parametrize("between", [(), (APPLY,)], ids=["at once", "after apply"])
async def test_a_second_promotion_leaves_no_message_out_that_the_first_one_let_in(
    places: Places, again: Sequence[str], between: Sequence[Sequence[str]]
) -> None:
    """The first one left an audit event, which is newer than all that waits."""
    await type_commands(places.second, (*PROMOTE_ALL, *HOUR_AGO), *between)
    before = await _read_pending(places.second)
    assert before["router-results"] == RESULTS
    await type_commands(places.second, again)
    after = await _read_pending(places.second)
    assert after == before | ({"caf-worker": ASSIGNMENTS} if again is PROMOTE else {})


@pytest.mark.parametrize(
    "failing_request",
    [
        "STREAM.UPDATE.ROUTER_USAGE",
        "STREAM.UPDATE.ROUTER_DECIDE",
        "CONSUMER.RESET.ROUTER_RESULTS.router-results",
    ],
)
async def test_a_promotion_that_failed_midway_goes_on_from_its_own_start(
    places: Places, monkeypatch: pytest.MonkeyPatch, failing_request: str
) -> None:
    """Streams that were not reached, and a durable that was made and not placed, begin where the
    first call was told.
    """
    with monkeypatch.context() as context:
        _fail_at(context, failing_request)
        assert (
            await type_command(places.second, *PROMOTE, *HOUR_AGO)
        ).status == exit_codes.NO_ANSWER
    await type_commands(places.second, PROMOTE)
    pending = await _read_pending(places.second)
    assert (pending["router-results"], pending["caf-worker"]) == (RESULTS, ASSIGNMENTS)


async def test_a_durable_that_was_never_placed_begins_at_the_start_and_not_before(
    places: Places,
) -> None:
    """As a call leaves it that ended between the two requests, or a router that was started over
    mirrors.
    """
    await _make_durables(places.second)
    await type_commands(places.second, PROMOTE_ALL)  # from the newest message on, which is a result
    assert (await _read_pending(places.second))["router-results"] == 1


async def test_an_earlier_start_lets_more_in_and_widens_the_windows_so_far(places: Places) -> None:
    await type_commands(places.second, PROMOTE_ALL)
    assert (await _read_pending(places.second))["router-results"] == 1
    for since in ("3h", "1h"):  # the later one takes nothing back
        await type_commands(places.second, (*PROMOTE_ALL, "--since", since))
        assert (await _read_pending(places.second))["router-results"] == RESULTS
        for name, config in (await _read_effects(places.second)).items():
            assert config["duplicate_window"] > timedelta(hours=3).total_seconds() * 1e9, name
            assert datetime.fromisoformat(
                config["metadata"]["router-widened-window"]
            ) < datetime.now(UTC) - timedelta(hours=3), name


async def test_a_place_without_mirrors_is_not_promoted(places: Places) -> None:
    """Its durables would leave out what waits there."""
    hub = places.hub
    hub.start()
    for words in (PROMOTE_ALL, (*PROMOTE_ALL, "--since", "0s")):
        refused = await type_command(hub, *words)
        assert refused.status == 1
        assert "nothing to promote" in refused.err
    assert (await _read_pending(hub))["router-results"] == RESULTS


async def _store_unsettled(places: Places) -> None:
    settings = settings_at(places.hub)
    async with client_at(places.hub) as hub, client_at(places.second) as second:
        for number in range(ASSIGNMENTS):
            await hub.jetstream().publish(
                settings.assignment.subjects[0], b"{}", headers=headers_of(f"a-{number}")
            )
        for number in range(RESULTS):
            await asyncio.sleep(GAP_S)
            await publish_result(hub, settings, a_result(number), headers_of(number))
        await until(lambda: is_mirrored(hub, second, settings), what="every message in its mirror")


async def _make_durables(place: Place) -> None:
    """As a router does that starts there."""
    async with connected(place.url) as connection:
        await create(JetStream(connection), declare_topology(settings_at(place)))


async def _read_pending(place: Place) -> dict[str, int]:
    """How many messages each durable has before it. No router runs: none has delivered one."""
    async with connected(place.url) as connection:
        jetstream, settings = JetStream(connection), settings_at(place)
        consumers = [(one.stream, one.durable) for one in declare_topology(settings).consumers]
        infos = [
            await jetstream.consumer(*one)
            for one in (*consumers, (settings.streams.assignments.name, "caf-worker"))
        ]
    return {info["name"]: info["num_pending"] for info in infos if info is not None}


async def _read_effects(place: Place) -> dict[str, Json]:
    """The configurations of the streams of effects."""
    async with connected(place.url) as connection:
        infos = {
            name: await JetStream(connection).stream(name)
            for name in list_effect_streams(settings_at(place))
        }
    return {name: info["config"] for name, info in infos.items() if info is not None}


def _fail_at(monkeypatch: pytest.MonkeyPatch, request: str) -> None:
    """The server goes away before it gets this request of the API."""
    ask = JetStream.ask

    async def ask_or_fail(jetstream: JetStream, what: str, body: Json | None = None) -> Json:
        if what == request:
            raise BrokerUnavailable("the server went away")
        return await ask(jetstream, what, body)

    monkeypatch.setattr(JetStream, "ask", ask_or_fail)
