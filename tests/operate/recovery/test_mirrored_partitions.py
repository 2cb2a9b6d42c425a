"""Partitions and the journal of a replay in a second place: mirrored, and promoted
(docs/how-to/two-places.md#promotion).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology, create
from router.operate.dead_letters.journal import journal_bucket
from router.operate.topology.declared_topology import declare_topology
from tests.support.delivery import connected
from tests.support.pages import commands_of
from tests.support.places import (
    PAGE,
    Place,
    Places,
    client_at,
    settings_at,
    two_places,
    type_command,
    type_commands,
)
from tests.support.router_streams import headers_of
from tests.support.waiting import until

MIRROR, PROMOTE, APPLY = commands_of(PAGE, "promotion")
SUBJECTS = {
    "ROUTER_DECIDE_P0": ["beamline.router.v1.decide.p.0"],
    "ROUTER_DECIDE_P1": ["beamline.router.v1.decide.p.1"],
    "KV_ROUTER_PARTITIONS": ["$KV.ROUTER_PARTITIONS.>"],
    "KV_ROUTER_DLQ_REPLAYS": ["$KV.ROUTER_DLQ_REPLAYS.>"],
}
ALL = SUBJECTS.keys()
REQUESTS = {"ROUTER_DECIDE_P0": 1, "ROUTER_DECIDE_P1": 2}
A_PAGE = 1024  # streams, of a server's answer


@pytest.fixture
async def places() -> AsyncIterator[Places]:
    """The hub has two partitions and the journal of a replay; the settings of the commands name no
    partition.
    """
    async with two_places() as places:
        await type_commands(places.hub, APPLY)
        async with connected(places.hub.url) as connection:
            for settings in _parts(places.hub):
                await create(JetStream(connection), declare_topology(settings))
            await create(JetStream(connection), Topology((journal_bucket("ROUTER_DLQ"),)))
        await type_commands(places.second, MIRROR)
        yield places


async def test_partitions_and_the_journal_are_mirrored(places: Places) -> None:
    async with client_at(places.second) as nc:
        names = set(await _read_names(nc))
        assert names >= ALL
        assert {
            name for name in ALL if (await nc.jsm().stream_info(name)).config.mirror is not None
        } == ALL


async def test_partitions_and_the_journal_are_promoted_with_their_durables(places: Places) -> None:
    """The second call finds no mirror any more, and its earlier start holds for the durables of the
    partitions too.
    """
    await _store_requests(places)
    places.hub.kill()
    assert await _promote(places, "0s") == dict.fromkeys(ALL, "promoted")
    assert await _read_pending(places.second) == dict.fromkeys(REQUESTS, 0)
    assert await _promote(places, "1h") == dict.fromkeys(ALL, "is ours")
    assert await _read_pending(places.second) == REQUESTS
    async with client_at(places.second) as nc:
        assert {
            name: (await nc.jsm().stream_info(name)).config.subjects for name in ALL
        } == SUBJECTS


async def test_a_partition_beyond_the_first_page_of_streams_is_promoted(places: Places) -> None:
    async with client_at(places.second) as nc:
        for number in range(A_PAGE):
            await nc.jsm().add_stream(
                StreamConfig(name=f"A_{number}", subjects=[f"a.{number}"], storage="memory")
            )
        assert len(await _read_names(nc)) == A_PAGE
    places.hub.kill()
    assert await _promote(places, "1h") == dict.fromkeys(ALL, "promoted")


async def test_a_mirror_that_is_only_called_like_a_partition_stays_a_mirror(places: Places) -> None:
    async with client_at(places.second) as nc:
        await nc.jetstream().add_stream(name="OTHER")
        await nc.jetstream().add_stream(name="ROUTER_DECIDE_PAST", mirror={"name": "OTHER"})
        places.hub.kill()
        await type_commands(places.second, PROMOTE)
        assert (await nc.jsm().stream_info("ROUTER_DECIDE_PAST")).config.mirror is not None


def _parts(place: Place) -> Iterable[Settings]:
    return (settings_at(place, decide__partition=part) for part in "01")


async def _store_requests(places: Places) -> None:
    """No stream of requests acks what it stores."""
    async with client_at(places.hub) as hub, client_at(places.second) as second:
        for stream, count in REQUESTS.items():
            for number in range(count):
                await hub.publish(
                    SUBJECTS[stream][0], b"{}", headers=headers_of(f"{stream}-{number}")
                )
        await hub.flush()
        await until(lambda: _holds_requests(second), what="every request in its mirror")


async def _holds_requests(nc: Client) -> bool:
    return {
        name: (await nc.jsm().stream_info(name)).state.messages for name in REQUESTS
    } == REQUESTS


async def _promote(places: Places, since: str) -> dict[str, str]:
    """The states of the partitions' streams, their bucket and the journal's, as the command tells
    them.
    """
    promoted = await type_command(places.second, *PROMOTE, "--since", since, "--json")
    assert promoted.status == 0, promoted.err
    return {one["name"]: one["state"] for one in promoted.lines if one["name"] in ALL}


async def _read_pending(place: Place) -> dict[str, int]:
    """How many requests the durable of each partition has before it."""
    async with connected(place.url) as connection:
        infos = [
            await JetStream(connection).consumer(name, "router-decide-consumer")
            for name in REQUESTS
        ]
    return {info["stream_name"]: info["num_pending"] for info in infos if info is not None}


async def _read_names(nc: Client) -> list[str]:
    """The first page."""
    return list((await JetStream(nc).ask("STREAM.NAMES"))["streams"])
