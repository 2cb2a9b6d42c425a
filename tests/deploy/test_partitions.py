"""deploy/nats/partitions.conf: two routers, each with its own part of the decide subject, and
clients see no difference.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from router import Client
from router.config import Settings, load
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.deployed import DEPLOY, Deployed
from tests.support.router_streams import read_stream
from tests.support.service import a_router
from tests.support.stories import (
    SILENCE_S,
    Inboxes,
    MessageRecorder,
    a_request,
    has_messages,
    read_dead_letters,
)
from tests.support.waiting import until

SUBJECT = "beamline.router.v1.decide"
STREAMS = ("ROUTER_DECIDE_P0", "ROUTER_DECIDE_P1")
REQUESTS = 600
TENANTS = 24


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker((DEPLOY / "nats" / "partitions.conf").read_text()) as broker:
        yield broker


def a_part(url: str, partition: str, **more: object) -> Settings:
    given = {
        "nats.url": url,
        "http.port": 0,
        "decide.partition": partition,
        "reply.inbox_wait_ms": 10_000,
        **more,
    }
    return load(None, given, {}).settings


@contextlib.asynccontextmanager
async def both_parts(url: str) -> AsyncIterator[None]:
    async with a_router(a_part(url, "0")), a_router(a_part(url, "1")):
        yield


async def test_every_request_is_answered_once_by_the_router_of_its_part(
    nc: Nats, nats_url: str
) -> None:
    async with both_parts(nats_url):
        settings = a_part(nats_url, "0")
        inboxes, strays = (
            await Inboxes.under(nc, "parts"),
            await MessageRecorder.on(nc, f"{SUBJECT}.>"),
        )
        for n in range(REQUESTS):
            await inboxes.publish(nc, settings, n)
        await until(lambda: len(inboxes) >= REQUESTS, what=f"{REQUESTS} answers")
        await asyncio.sleep(SILENCE_S)
    stored = [len(await read_stream(nc, stream)) for stream in STREAMS]
    assert inboxes.counts == {inboxes.of(n): 1 for n in range(REQUESTS)}
    assert all(b'"ok":true' in answer for (answer,) in inboxes.heard.values())
    # the requests themselves, and no answer without an inbox
    assert strays.subjects == {f"{SUBJECT}.p.0", f"{SUBJECT}.p.1"}
    assert (sum(stored), min(stored) > REQUESTS / 3) == (REQUESTS, True)


async def test_a_tenant_named_in_the_subject_always_meets_the_same_part(
    nc: Nats, nats_url: str
) -> None:
    async with both_parts(nats_url):
        inboxes = await Inboxes.under(nc, "tenants")
        for n in range(TENANTS * 4):
            tenant = f"t{n % TENANTS}"
            await nc.publish(
                f"{SUBJECT}.by.{tenant}",
                a_request(n),
                reply=inboxes.of(n),
                headers={"Nats-Msg-Id": f"m-{n}", "asker": tenant},
            )
        await until(lambda: len(inboxes) >= TENANTS * 4)
        await asyncio.sleep(SILENCE_S)
    met = [
        {headers["asker"] for _, _, headers in await read_stream(nc, stream)} for stream in STREAMS
    ]
    assert inboxes.counts == {inboxes.of(n): 1 for n in range(TENANTS * 4)}
    assert met[0] & met[1] == set()
    assert (len(met[0] | met[1]), all(met)) == (TENANTS, True)


async def test_dead_letters_and_answers_go_by_the_subject_that_was_asked(
    nc: Nats, nats_url: str
) -> None:
    """Dead letters, the allow list and reply subjects bear the public subject, never a partition's."""
    settings = a_part(nats_url, "0", **{"subject_allowlist": SUBJECT})
    async with (
        a_router(settings),
        a_router(a_part(nats_url, "1", **{"subject_allowlist": SUBJECT})),
    ):
        ears = await MessageRecorder.on(nc, f"{SUBJECT}.reply")
        # the server draws a part for each: with eight, all were one part's once
        for n in range(24):
            await nc.publish(SUBJECT, b"{}", headers={"Nats-Msg-Id": f"broken-{n}"})
            await nc.publish(SUBJECT, a_request(n), headers={"Nats-Msg-Id": f"good-{n}"})
        await until(lambda: len(ears) >= 48)
        found = await read_dead_letters(nc, settings)
    assert ears.subjects == {f"{SUBJECT}.reply"}
    assert [letter["original_subject"] for letter in found] == [SUBJECT] * 24
    assert {letter["source"]["stream"] for letter in found} == set(STREAMS)
    assert {subject for subject, _, _ in await read_stream(nc, "ROUTER_DLQ")} == {f"{SUBJECT}.dlq"}


async def test_the_server_s_mapping_gives_the_stored_and_the_heard_copy_one_partition(
    nc: Nats, nats_url: str
) -> None:
    """What all of it stands on; without it a router would wait for inboxes that another one hears."""
    heard = await MessageRecorder.on(nc, f"{SUBJECT}.p.*")
    for partition in range(2):
        await nc.jetstream().add_stream(
            name=f"COPY_{partition}", subjects=[f"{SUBJECT}.p.{partition}"]
        )
    for n in range(200):
        await nc.publish(SUBJECT, b"%d" % n)
    await until(lambda: len(heard) == 200)
    for partition in range(2):
        bodies = heard.heard[f"{SUBJECT}.p.{partition}"]
        await until(partial(has_messages, nc, f"COPY_{partition}", len(bodies)))
        assert [data for _, data, _ in await read_stream(nc, f"COPY_{partition}")] == bodies


async def test_the_roles_of_a_partitioned_server_do_their_work() -> None:
    """With accounts.conf: parts made by the operator, who replays; a router on each, asked by a
    gateway until one is left.
    """
    with Deployed(is_partitioned=True) as deployed:
        for partition in ("0", "1"):
            await deployed.make_topology(ROUTER_DECIDE__PARTITION=partition)
        parts = [
            deployed.settings(
                "router",
                http__port=0,
                acks__enabled=True,
                tenants_allowed="acme",
                decide__partition=own,
                decide__standby=other,
                decide__lease_ms=300,
            )
            for own, other in (("0", "1"), ("1", "0"))
        ]
        gateway = deployed.settings("gateway").nats
        async with (
            a_router(parts[0]),
            a_router(parts[1]) as second,
            Client(gateway) as client,
            Client(gateway, subject=f"{SUBJECT}.by.acme") as named,
        ):
            asked: dict[str, Any] = {
                "tenant_id": "acme",
                "message_type": "chat",
                "payload": "hello",
                "timeout": 60.0,
            }
            answers = [await client.decide(**asked, request_id=f"r-{n}") for n in range(20)]
            answers += [await named.decide(**asked, request_id=f"n-{n}") for n in range(5)]
            await client.decide(**{**asked, "tenant_id": "evil"}, request_id="refused")
            replayed = await call_command_async(
                "dlq", "replay", "--all", "--json", environ=deployed.environ("operator")
            )
            await second.stop()
            answers += [await client.decide(**asked, request_id=f"s-{n}") for n in range(20)]
        violations = deployed.violations()
    assert all(answer.decision is not None for answer in answers)
    assert (replayed.status, replayed.json["sent"], replayed.json["kept"]) == (0, 1, []), (
        replayed.err
    )
    assert violations == []
