"""One of several instances asks the server for an info, and all hear the answer: counted in calls,
on a real server.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial

import orjson
import pytest
from nats.aio.client import Client

from router.core.errors import NoLeader
from router.delivery.wire import shared_info
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.shared_info import SHARED_INFO, RecentInfo, SharedInfo
from router.delivery.wire.topology import StreamSpec, Topology, compare, create
from tests.support.delivery import CountingJetStream, connected
from tests.support.waiting import until

INSTANCES = 5
ROUNDS = 5


class Fleet:
    """Several instances of one account, a clock that stands until it is set, and the calls that
    they make.
    """

    def __init__(self, connections: list[Connection], stream: str) -> None:
        self.servers = [CountingJetStream(connection) for connection in connections]
        self.infos = [SharedInfo(server, lambda: self.now) for server in self.servers]
        self.stream = stream
        self.now = 0.0

    @property
    def asked(self) -> int:
        return sum(len(server.asked) for server in self.servers)

    async def know_their_domain(self) -> None:
        """Each instance's first answer is its own; it hears others from then on."""
        for info in self.infos:
            await info.stream(self.stream)
        # a late one would be heard in the first round
        await until(lambda: not any(info._unpublished for info in self.infos))
        await self.hears_all()

    async def hears_all(self) -> None:
        # what the last one published came after the flush of the first
        for info in (*self.infos, *self.infos):
            await info._connection.flush()

    def spread(self) -> bool:
        """Whether every instance has an answer that another one asked for."""
        answers = [info._answers.get(f"STREAM.INFO.{self.stream}") for info in self.infos]
        return (
            sum(
                answer is not None and not answer.is_own and answer.at == self.now
                for answer in answers
            )
            >= INSTANCES - 1
        )


@pytest.fixture(autouse=True)
def _short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_info, "GATHER_S", 0.1)


@pytest.fixture
async def fleet(nats_url: str, prefix: str) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(connected(nats_url)) for _ in range(INSTANCES)
        ]
        fleet = Fleet(connections, f"{prefix}_S")
        for info in fleet.infos:
            await stack.enter_async_context(info.listen())
        await create(
            JetStream(connections[0]),
            Topology((StreamSpec(name=fleet.stream, subjects=(f"{prefix}.s",)),)),
        )
        await fleet.know_their_domain()
        yield fleet


async def test_instances_that_look_in_turn_ask_once_a_round_together(fleet: Fleet) -> None:
    for _ in range(ROUNDS):
        before = fleet.now
        fleet.now = before + 100.0
        await fleet.infos[0].stream(fleet.stream, 10.0)
        await until(fleet.spread)
        for info in fleet.infos:
            assert await info.stream(fleet.stream, 10.0) is not None
    assert fleet.asked == INSTANCES + ROUNDS


async def _hear(fleet: Fleet, instance: SharedInfo, key: str) -> None:
    await until(
        lambda: (
            (answer := instance._answers.get(key)) is not None
            and answer.at == fleet.now
            and not answer.is_own
        )
    )


async def test_the_instance_that_asked_last_asks_again_though_the_others_look_before_it(
    fleet: Fleet,
) -> None:
    """Rounds of five seconds, a quarter more or less: the others wait until the one that asks has
    missed a round.
    """
    asked = 0

    async def ask() -> dict[str, object]:
        nonlocal asked
        asked += 1
        return {}

    for instance in fleet.infos[1:]:
        instance._answers["K"] = None
    for number in range(1, ROUNDS + 1):
        await fleet.infos[0].read("K", 3.5, ask)
        for instance in fleet.infos[1:]:
            await _hear(fleet, instance, "K")
        fleet.now += 6.2
        for instance in fleet.infos[1:]:
            await instance.read("K", 3.5, ask)
        assert asked == number


async def test_an_instance_that_asks_for_one_answer_of_a_round_asks_for_all_and_no_other_instance_does(
    fleet: Fleet,
) -> None:
    asked: list[str] = []

    async def ask(name: str) -> dict[str, object]:
        asked.append(name)
        return {}

    one, other = fleet.infos[:2]
    one._answers["B"] = other._answers["A"] = None
    await one.read("A", 3.5, lambda: ask("A"))
    await _hear(fleet, other, "A")
    fleet.now += 2.0
    await other.read("B", 3.5, lambda: ask("B"))
    await _hear(fleet, one, "B")
    fleet.now += 3.0
    for name in "AB":
        await one.read(name, 3.5, partial(ask, name))
    await _hear(fleet, other, "B")
    fleet.now += 2.0
    for name in "AB":
        await other.read(name, 3.5, partial(ask, name))
    assert asked == ["A", "B", "A", "B"]


async def test_that_there_is_no_answer_any_more_makes_every_instance_ask(fleet: Fleet) -> None:
    """Else the others would go on with what they heard before the quorum was lost."""

    async def ask() -> dict[str, object]:
        return {}

    async def fail() -> dict[str, object]:
        raise NoLeader("no quorum")

    one, other = fleet.infos[:2]
    other._answers["K"] = None
    await one.read("K", 3.5, ask)
    await _hear(fleet, other, "K")
    fleet.now += 5.0
    with pytest.raises(NoLeader):
        await one.read("K", 3.5, fail)
    await until(lambda: other._answers["K"] is None)
    with pytest.raises(NoLeader):
        await other.read("K", 3.5, fail)
    assert not one._unpublished | other._unpublished, (
        "each would tell all others at each of its tries"
    )


async def test_what_decides_asks_the_server(fleet: Fleet) -> None:
    before = fleet.asked
    for info in fleet.infos:
        assert await info.stream(fleet.stream) is not None
    assert fleet.asked == before + INSTANCES


async def test_an_answer_is_asked_for_again_when_it_is_too_old(fleet: Fleet) -> None:
    info = fleet.infos[0]
    fleet.now = 50.0
    first = await info.stream(fleet.stream, 10.0)
    fleet.now = 59.0
    assert await info.stream(fleet.stream, 10.0) is first
    fleet.now = 61.0
    assert await info.stream(fleet.stream, 10.0) is not first


async def test_that_there_is_none_is_an_answer_too(fleet: Fleet) -> None:
    one, other = fleet.infos[:2]
    assert await other.stream("NOWHERE") is None
    fleet.now = 100.0
    assert await one.stream("NOWHERE", 10.0) is None
    await until(
        lambda: (heard := other._answers["STREAM.INFO.NOWHERE"]) is not None and heard.at == 100.0
    )
    assert other._answers["STREAM.INFO.NOWHERE"].info is None  # type: ignore[union-attr]


async def test_a_comparison_takes_what_another_instance_heard(fleet: Fleet, prefix: str) -> None:
    declared = Topology((StreamSpec(name=fleet.stream, subjects=(f"{prefix}.s",)),))
    fleet.now = 100.0
    await fleet.infos[0].stream(fleet.stream)
    await until(fleet.spread)
    heard = fleet.infos[1]._answers[f"STREAM.INFO.{fleet.stream}"]
    assert await compare(RecentInfo(fleet.infos[1], 10.0), declared) == []
    assert fleet.infos[1]._answers[f"STREAM.INFO.{fleet.stream}"] is heard


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"$JS.API \nSTREAM.INFO.{stream} null",
        b"$JS.API  x\nSTREAM.INFO.{stream} not json",
        b"$JS.API  x\nSTREAM.INFO.{stream} [1]",
        b"$JS.leaf.API  x\nSTREAM.INFO.{stream} null",
        b"$JS.API hub x\nSTREAM.INFO.{stream} null",
        b"$JS.API  x\n\xff\xfe null\n",
    ],
)
async def test_what_is_no_info_of_this_domain_is_ignored(
    fleet: Fleet, nc: Client, message: bytes
) -> None:
    before = fleet.infos[0]._answers[f"STREAM.INFO.{fleet.stream}"]
    await nc.publish(SHARED_INFO, message.replace(b"{stream}", fleet.stream.encode()))
    await nc.publish(SHARED_INFO, b"$JS.API  x\nSTREAM.INFO.UNASKED " + orjson.dumps({}))
    await nc.flush()
    await fleet.hears_all()
    assert fleet.infos[0]._answers[f"STREAM.INFO.{fleet.stream}"] is before
    assert "STREAM.INFO.UNASKED" not in fleet.infos[0]._answers


async def test_one_that_does_not_listen_publishes_nothing(nats_url: str, fleet: Fleet) -> None:
    async with connected(nats_url) as connection:
        info = SharedInfo(JetStream(connection))
        assert await info.stream(fleet.stream) is not None
        assert not info._unpublished
