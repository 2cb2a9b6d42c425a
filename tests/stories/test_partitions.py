"""Two partitions, a router each, and each stands by for the other: when one dies, the other answers
its requests.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from nats.aio.client import Client

from router.config import Settings, load
from router.decide.settings import DecideConfig
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology
from router.operate.doctor import collect, examine
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.deployed import DEPLOY
from tests.support.router_streams import read_assignments
from tests.support.service import RouterProcess
from tests.support.stories import Inboxes, a_request, is_settled, read_dead_letters, read_metric
from tests.support.waiting import until

REQUESTS = 100
LEDGER = 1_000
LEASE_MS = 600
TAKEOVER_S = 2.0  # on a quiet machine: a lease and a third, and the time to begin


def settings_of(url: str, partition: str) -> dict[str, object]:
    return {
        "nats.url": url,
        "http.port": 0,
        "decide.partition": partition,
        "decide.standby": {"0": "1", "1": "0"}[partition],
        "decide.lease_ms": LEASE_MS,
        "decide.ack_wait_ms": 1_000,
        "decide.max_attempts": 20,  # a router that stands still costs one
        "reply.inbox_wait_ms": 10_000,
    }


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker((DEPLOY / "nats" / "partitions.conf").read_text()) as broker:
        yield broker


@pytest.fixture
def routers(nats_url: str) -> Iterator[list[RouterProcess]]:
    """Router 0 owns partition 0 and stands by for partition 1; router 1 the other way round."""
    with (
        RouterProcess(settings_of(nats_url, "0")) as one,
        RouterProcess(settings_of(nats_url, "1")) as other,
    ):
        yield [one, other]


async def has_state(router: RouterProcess, partition: str, state: str) -> bool:
    return (
        await read_metric(
            router.ready["http"], "router_partition_routers", partition=partition, state=state
        )
        == 1
    )


async def each_takes_its_own(routers: list[RouterProcess]) -> bool:
    states = [
        (routers[0], "0", "takes"),
        (routers[0], "1", "stands_by"),
        (routers[1], "1", "takes"),
        (routers[1], "0", "stands_by"),
    ]
    return all([await has_state(*state) for state in states])


async def test_the_requests_of_a_killed_router_are_answered_by_its_standby(
    nc: Client, routers: list[RouterProcess]
) -> None:
    """Plain inboxes: the standby has heard whose they are."""
    inboxes = await Inboxes.under(nc, "parts")
    await until(
        lambda: each_takes_its_own(routers),
        what="the standbys to hand back what they took while the other started",
    )
    routers[1].kill()
    for n in range(REQUESTS):
        await inboxes.publish(nc, Settings(), n)
    await until(
        lambda: len(inboxes.subjects) == REQUESTS, within_s=TAKEOVER_S, what=f"{REQUESTS} answers"
    )
    assert [answers for answers in inboxes.heard.values() if len(set(answers)) > 1] == []
    await until(lambda: has_state(routers[0], "1", "takes"))


async def test_the_doctor_names_the_partition_of_a_dead_router(
    nats_url: str, routers: list[RouterProcess]
) -> None:
    async def is_told(words: str) -> bool:
        return words in await diagnose(nats_url)

    await until(lambda: each_takes_its_own(routers))
    await until(lambda: is_told("other router can take over"))
    routers[1].kill()
    await until(
        lambda: is_told("has taken it over: its own router is away"),
        what="the doctor to name the standby",
    )
    routers[0].kill()
    await until(lambda: is_told("partition 0: fail: no router takes its requests"))
    await until(lambda: is_told("partition 1: fail: no router takes its requests"))


async def diagnose(url: str) -> str:
    """What the doctor says of partitions; its settings name none."""
    partitioned = Settings(decide=DecideConfig(lease_ms=LEASE_MS))
    async with connected(url) as connection:
        facts = await collect(
            JetStream(connection),
            Topology(streams=()),
            letters="",
            max_request=1,
            partitioned=partitioned,
        )
    return "\n".join(
        f"{one.check}: {one.verdict}: {one.found}"
        for one in examine(facts)
        if one.check.startswith("partition ")
    )


ENDS: Sequence[tuple[Callable[[RouterProcess], object], Callable[[RouterProcess], object]]] = (
    (RouterProcess.kill, RouterProcess.start),
    (RouterProcess.kill, RouterProcess.start),
    # it goes on with what it had pulled, after the standby handled it
    (RouterProcess.pause, RouterProcess.unpause),
    (RouterProcess.terminate, RouterProcess.start),
)


async def test_nothing_is_lost_or_decided_twice_while_each_router_ends_and_returns(
    nc: Client, nats_url: str, routers: list[RouterProcess]
) -> None:
    """The ledger: 1 000 pushed requests over both partitions; each is answered, alike if twice, and
    has one assignment.
    """
    settings = Settings()
    inboxes = await Inboxes.under(nc, "ledger")
    await until(lambda: each_takes_its_own(routers))
    for n in range(LEDGER):
        await inboxes.publish(nc, settings, n, a_request(n, push_assignment=True))
        end, begin = ENDS[n // 250]
        router = routers[n // 250 % 2]
        if n % 250 == 100:
            end(router)
        elif n % 250 == 200:
            await until(lambda n=n: len(inboxes.heard) > n, what="the standby to answer")  # type: ignore[misc]
            await asyncio.to_thread(begin, router)
        elif n % 250 == 249:
            await until(lambda: each_takes_its_own(routers), what="the standby to hand back")
    await until(lambda: len(inboxes.heard) >= LEDGER, what=f"{LEDGER} answers")
    for partition in "01":
        part = load(None, settings_of(nats_url, partition), {}).settings
        part = part.model_copy(
            update={
                "streams": part.streams.model_copy(
                    update={"decide": part.decide.find_stream(part.streams.decide)}
                )
            }
        )
        await until(lambda part=part: is_settled(nc, part))  # type: ignore[misc]
    assert [
        answers
        for answers in inboxes.heard.values()
        if len(set(answers)) > 1 or b'"ok":true' not in answers[0]
    ] == []
    assigned = Counter(one["request_id"] for one in await read_assignments(nc, settings))
    assert assigned == {f"r-{n}": 1 for n in range(LEDGER)}
    assert await read_dead_letters(nc, settings) == []
