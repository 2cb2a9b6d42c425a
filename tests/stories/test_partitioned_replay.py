"""Dead letters of a partitioned decide subject are sent again: the server's mapping chooses a
partition, and each is decided once.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client

from router.config import Settings, load
from router.decide.request_steps import find_request_steps
from router.delivery.wire.api import JetStream
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.deployed import DEPLOY
from tests.support.replays import kill_replay, replay
from tests.support.router_streams import read_stream
from tests.support.service import a_router
from tests.support.stories import MessageRecorder, a_request, read_dead_letters
from tests.support.waiting import until

LETTERS = 40
PARTS = ("ROUTER_DECIDE_P0", "ROUTER_DECIDE_P1")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker((DEPLOY / "nats" / "partitions.conf").read_text()) as broker:
        yield broker


@asynccontextmanager
async def both_parts(url: str, **more: object) -> AsyncIterator[Settings]:
    parts = [
        load(None, {"nats.url": url, "http.port": 0, "decide.partition": part, **more}, {}).settings
        for part in "01"
    ]
    async with a_router(parts[0]), a_router(parts[1]):
        yield parts[0]


async def refuse(nc: Client, url: str, **more: object) -> None:
    """Both parts have dead letters then."""
    async with both_parts(url, **{"tenants_allowed": "another", **more}) as settings:
        for n in range(LETTERS):
            await nc.publish(
                settings.decide.subject, a_request(n), headers={"Nats-Msg-Id": f"m-{n}"}
            )
        await until(lambda: has_letters(nc), what="every request to be refused")


async def has_letters(nc: Client) -> bool:
    return len(await read_dead_letters(nc, Settings())) == LETTERS


async def count_stored(nc: Client) -> list[int]:
    return [len(await read_stream(nc, stream)) for stream in PARTS]


async def test_dead_letters_of_both_partitions_are_sent_again_and_answered(
    nc: Client, nats_url: str
) -> None:
    await refuse(nc, nats_url)
    async with both_parts(nats_url) as settings:
        answers = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
        said = await replay(nats_url, "--json")
        await until(lambda: len(answers) >= LETTERS, what="every request to be answered")
    assert (said.status, said.json["sent"], said.json["kept"]) == (0, LETTERS, []), said.err
    assert await read_dead_letters(nc, settings) == []
    stored = await count_stored(nc)
    assert (sum(stored), min(stored) > 0) == (2 * LETTERS, True)


async def test_a_replay_that_was_killed_is_finished_from_both_partitions(
    nc: Client, nats_url: str
) -> None:
    await refuse(nc, nats_url)
    await kill_replay(nats_url, "replay_proven")
    said = await replay(nats_url, "--json")
    assert (said.status, said.json["finished"], said.json["sent"]) == (0, LETTERS, 0), said.err
    assert sum(await count_stored(nc)) == 2 * LETTERS


async def test_dead_letters_are_sent_again_where_a_publish_ack_confirms_that_a_request_is_stored(
    nc: Client, nats_url: str
) -> None:
    await refuse(nc, nats_url, **{"reply.confirm": "stored"})
    said = await replay(nats_url, "--json")
    assert (said.status, said.json["sent"], said.json["kept"]) == (0, LETTERS, []), said.err
    assert sum(await count_stored(nc)) == 2 * LETTERS


async def test_the_stream_from_before_the_partitions_is_no_place_to_look_for_what_was_sent(
    nc: Client, nats_url: str
) -> None:
    """It binds the public subject still, and the mapping lets nothing reach it."""
    await nc.jetstream().add_stream(
        name="ROUTER_DECIDE", subjects=[Settings().decide.subject], no_ack=True
    )
    await refuse(nc, nats_url)
    said = await replay(nats_url, "--json")
    assert (said.status, said.json["sent"], said.json["in_doubt"]) == (0, LETTERS, False), said.err
    assert (sum(await count_stored(nc)), await read_stream(nc, "ROUTER_DECIDE")) == (
        2 * LETTERS,
        [],
    )


async def test_a_payload_that_was_left_out_is_taken_from_the_partition_that_holds_it(
    nc: Client, nats_url: str
) -> None:
    await refuse(nc, nats_url, **{"dlq.include_full_message": False})
    async with connected(nats_url) as connection:
        letter = await JetStream(connection).get_last(
            "ROUTER_DLQ", f"{Settings().decide.subject}.dlq"
        )
    assert letter is not None
    assert b'"payload"' not in letter.data
    said = await replay(nats_url, "--json")
    assert (said.status, said.json["sent"]) == (0, LETTERS), said.err


async def test_a_request_is_found_in_whichever_partition_holds_it(
    nc: Client, nats_url: str
) -> None:
    await refuse(nc, nats_url)
    async with connected(nats_url) as connection:
        every = [
            await find_request_steps(JetStream(connection), Settings(), "acme", f"r-{n}", look=100)
            for n in range(LETTERS)
        ]
    assert [[step.what for step in found.steps] for found in every] == [
        ["request", "dead letter"]
    ] * LETTERS
    assert {found.steps[0].where.split()[0] for found in every} == set(PARTS)
    assert not [
        gap
        for found in every
        for gap in found.gaps
        if "there is no stream" in gap and "request" in gap
    ]


async def test_a_request_from_before_the_partitions_is_found(nc: Client, nats_url: str) -> None:
    async with a_router(load(None, {"nats.url": nats_url, "http.port": 0}, {}).settings):
        pass  # the partitions' mapping is there, so nothing reaches its stream
    await nc.jetstream().add_stream(
        name="ROUTER_DECIDE_P0", subjects=[f"{Settings().decide.subject}.p.0"], no_ack=True
    )
    await nc.jetstream().update_stream(name="ROUTER_DECIDE", subjects=["before"], no_ack=False)
    await nc.jetstream(timeout=60).publish("before", a_request(1))
    async with connected(nats_url) as connection:
        found = await find_request_steps(JetStream(connection), Settings(), "acme", "r-1", look=100)
    assert [step.where for step in found.steps] == ["ROUTER_DECIDE 1"]
