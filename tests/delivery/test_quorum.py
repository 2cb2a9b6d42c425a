"""What the info of a stream or a consumer says of its quorum."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from router.core.errors import BrokerUnavailable, NoLeader, QuorumLost
from router.delivery.wire import server_state
from router.delivery.wire.server_state import CutOffWatch, require_quorum

SECOND = 1_000_000_000


def an_info(leader: str, *active_s: float, offline: bool = False) -> dict[str, object]:
    followers = [
        {"name": str(number), "active": int(one * SECOND), "offline": offline}
        for number, one in enumerate(active_s)
    ]
    return {"cluster": {"name": "c", "leader": leader, "replicas": followers}}


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"cluster": {"name": "c", "leader": "a"}},
        an_info("a", 0.3, 0.9),
        an_info("a", 0.3, 60),
        an_info("a", 0.3, 0.3, 60, 60),
    ],
    ids=["no cluster", "one copy", "all answer", "one of three is away", "two of five are away"],
)
def test_a_majority_that_answers_is_a_quorum(info: dict[str, object]) -> None:
    require_quorum("stream S", info)


@pytest.mark.parametrize(
    ("info", "cause"),
    [
        (an_info("a", 5, 5), "stream S lost its quorum: 1 of its 3 servers answer each other"),
        (an_info("a", 0.3, 5, 5, 5), "2 of its 5 servers"),
        (an_info("a", 0.3, 0.3, offline=True), "1 of its 3 servers"),
    ],
)
def test_a_leader_that_is_alone_has_lost_its_quorum(info: dict[str, object], cause: str) -> None:
    with pytest.raises(QuorumLost, match=cause):
        require_quorum("stream S", info)


def test_a_stream_that_any_member_tells_of_may_have_no_leader() -> None:
    with pytest.raises(NoLeader, match="stream S has no leader") as without:
        require_quorum("stream S", an_info("", 0.3, 0.3, 0.3))
    assert not isinstance(without.value, QuorumLost)


class Answering:
    """A JetStream that answers infos with what a test says, and counts the servers that are left."""

    def __init__(self) -> None:
        self.answer: dict[str, object] | Exception | None = {}  # None: it does not come
        self.left = 0
        self.time = 0.0
        self.connection = SimpleNamespace(is_connected=True, leave_server=self._leave)

    def watch(self) -> CutOffWatch:
        jetstream: Any = self
        return CutOffWatch(jetstream, "S", lambda: self.time)

    async def stream(self, _: str) -> dict[str, object] | None:
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def _leave(self) -> None:
        self.left += 1


async def test_a_publisher_leaves_a_server_whose_stream_lost_its_quorum() -> None:
    server = Answering()
    server.answer = an_info("a", 5, 5)
    await server.watch().look(0.0)
    assert server.left == 1


@pytest.mark.parametrize("answer", [NoLeader("no answer"), an_info("", 0.3, 0.3)])
async def test_a_publisher_leaves_a_server_without_a_leader_after_the_time_of_an_election(
    answer: Any,
) -> None:
    server = Answering()
    server.answer, watch = answer, server.watch()
    for server.time in (1.0, 5.0, 7.9):
        await watch.look(server.time)
    assert server.left == 0
    server.time = 8.1
    await watch.look(server.time)
    assert server.left == 1


async def test_a_publisher_stays_where_there_is_a_leader_between_two_elections() -> None:
    server = Answering()
    watch = server.watch()
    answers: list[Any] = [
        an_info("", 0.3, 0.3),
        an_info("a", 0.3, 0.3),
        an_info("", 0.3, 0.3),
        BrokerUnavailable("not connected"),
    ]
    for server.time, server.answer in zip((1.0, 6.0, 9.0, 99.0), answers, strict=True):
        await watch.look(server.time)
    assert server.left == 0


async def test_a_publisher_counts_from_when_it_began_to_wait_for_a_publish_ack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five seconds without a publish ack, and two without an answer: a server that is cut off is
    left at the first look.
    """
    monkeypatch.setattr(server_state, "ANSWER_S", 0.01)
    server = Answering()
    watch, server.answer = server.watch(), None
    server.time = 7.1
    await watch.look(0.0)
    assert server.left == 1
